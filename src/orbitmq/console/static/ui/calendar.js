// Hours of days as cells, the darker the more is due in them; slots are quarters of an hour. A cell chooses its hour.
import { html } from "/static/html.js";
import { number } from "/static/format.js";
import { language, t } from "/static/words.js";
import { Empty } from "/static/ui/notice.js";

const HOUR = 3600000;
const DAY = 24 * HOUR;
const MOST_DAYS = 40;

const midnight = (ms) => new Date(ms).setHours(0, 0, 0, 0);

export function Calendar({ slots, chosen, onChoose }) {
  const hours = new Map();
  for (const { atMs, count } of slots) {
    const at = new Date(atMs).setMinutes(0, 0, 0);
    hours.set(at, (hours.get(at) ?? 0) + count);
  }
  if (!hours.size) return html`<${Empty} title=${t("Nothing is due")}><//>`;
  const most = Math.max(...hours.values());
  const days = [];
  // Noon of the next day, whatever the clocks do in between.
  for (let day = midnight(Math.min(...hours.keys())); day <= Math.max(...hours.keys()) && days.length < MOST_DAYS; day = midnight(day + 1.5 * DAY)) days.push(day);
  const name = new Intl.DateTimeFormat(language.value, { weekday: "short", day: "numeric", month: "short" });
  return html`<div class="table-box"><table class="calendar" aria-label=${t("Messages due by hour")}>
    <thead><tr><th scope="col">${t("Day")}</th>${Array.from({ length: 24 }, (_, hour) => html`<th scope="col" key=${hour}>${hour % 3 ? html`<span class="unseen">${hour}</span>` : hour}</th>`)}<th scope="col" class="number">${t("Sum")}</th></tr></thead>
    <tbody>${days.map((day) => {
      const cells = Array.from({ length: 24 }, (_, hour) => new Date(day).setHours(hour, 0, 0, 0));
      return html`<tr key=${day}><th scope="row">${name.format(day)}</th>
        ${cells.map((at) => html`<td key=${at}>${hours.has(at) && html`<button type="button" class=${`cell level-${Math.max(1, Math.ceil((4 * Math.log1p(hours.get(at))) / Math.log1p(most)))}`} aria-pressed=${at === chosen} onClick=${() => onChoose(at)}
          title=${number(hours.get(at))} aria-label=${t("{day}, {hour}:00: {count} messages", { day: name.format(day), hour: new Date(at).getHours(), count: number(hours.get(at)) })}></button>`}</td>`)}
        <td class="number">${number(cells.reduce((sum, at) => sum + (hours.get(at) ?? 0), 0))}</td></tr>`;
    })}</tbody></table></div>`;
}
