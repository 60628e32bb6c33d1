// Messages of a delay service: its calendar, a search, moves and cancels.
import { html, useState } from "/static/html.js";
import { inCluster, may, post } from "/static/api.js";
import { useLive } from "/static/live.js";
import { bytes, number, span, time } from "/static/format.js";
import { filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Calendar } from "/static/ui/calendar.js";
import { Dialog } from "/static/ui/dialog.js";
import { Download } from "/static/ui/download.js";
import { Text } from "/static/ui/fields.js";
import { Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";

const HOUR = 3600000;

export function Scheduled({ cluster }) {
  const query = place.value.query;
  const [topic, prefix, cursor, hour] = ["topic", "prefix", "cursor", "hour"].map((name) => query.get(name) ?? "");
  const from = Number(hour || 0);
  const asked = new URLSearchParams({ ...(topic && { topic }), ...(prefix && { prefix }), ...(from && { fromMs: from, toMs: from + HOUR }) });
  const calendar = useLive(inCluster(cluster, `/scheduled?${new URLSearchParams(topic && { topic })}`), 10);
  const path = inCluster(cluster, `/scheduled/messages?${asked}`);
  const found = useLive(calendar.value?.isThere ? `${path}${cursor && `&cursor=${encodeURIComponent(cursor)}`}` : null, 10);
  const [changing, setChanging] = useState(null);
  const search = (changed) => filter({ cursor: "", ...changed });
  const { value } = calendar;
  if (value && !value.isThere) return html`<${Empty} title=${t("This cluster has no delay service")}>${t("Start the console with --delay URL.")}<//>`;
  const done = () => { setChanging(null); calendar.reload(); found.reload(); };
  return html`<${Problem} error=${calendar.error} retry=${calendar.reload} />${calendar.loading && html`<${Loading} />`}
    ${value && html`<dl class="facts"><div><dt>${t("Pending")}</dt><dd>${number(Object.values(value.topics).reduce((sum, one) => sum + one, 0))}</dd></div></dl>
      <section class="card"><h2>${t("Due")}</h2><div class="pad"><${Calendar} slots=${value.slots} chosen=${from} onChoose=${(at) => search({ hour: at === from ? "" : at })} /></div></section>
      <section class="card"><div class="head-row titled"><h2>${t("Messages")}</h2><${Download} path=${path} /></div><div class="pad tools">
          <${Text} label=${t("Topic")} value=${topic} onInput=${(text) => search({ topic: text.trim() })} list="scheduled-topics" />
          <datalist id="scheduled-topics">${Object.keys(value.topics).map((one) => html`<option key=${one} value=${one}></option>`)}</datalist>
          <${Text} label=${t("Beginning of the name")} value=${prefix} onInput=${(text) => search({ prefix: text.trim() })} />
          ${from > 0 && html`<button type="button" onClick=${() => search({ hour: "" })}>${t("Due {from} to {to}: show all", { from: time(from), to: time(from + HOUR) })}</button>`}
          ${cursor && html`<button type="button" onClick=${() => search({})}>${t("First page")}</button>`}
          ${found.value?.cursor && html`<button type="button" onClick=${() => filter({ cursor: found.value.cursor })}>${t("Next page")}</button>`}</div>
        <${Problem} error=${found.error} retry=${found.reload} />
        ${found.value && html`<${Table} label=${t("Messages of the delay service")} rows=${found.value.messages} rowKey=${(one) => `${one.source} ${one.id}`} columns=${columns(setChanging)} empty=${html`<${Empty} title=${t("No message waits here")}><//>`} />`}</section>`}
    ${changing?.action === "cancel" && html`<${Cancel} cluster=${cluster} message=${changing.message} onClose=${() => setChanging(null)} onDone=${done} />`}
    ${changing?.action === "move" && html`<${Move} cluster=${cluster} message=${changing.message} onClose=${() => setChanging(null)} onDone=${done} />`}`;
}

const columns = (change) => [
  { key: "due", title: t("Due"), cell: (one) => html`${time(one.dueMs)} <span class="quiet">${t("in {time}", { time: span(Math.max(0, one.dueMs - Date.now())) })}</span>` },
  { key: "name", title: t("Name"), cell: (one) => html`<span class="mono">${one.id}</span>${one.repeats && html` <span class="tag">${t("repeats")}</span>`}` },
  { key: "target", title: t("Target"), cell: (one) => html`<span class="mono">${one.target}</span>` },
  { key: "owner", title: t("Owner"), hide: "narrow", cell: (one) => one.owner },
  { key: "size", title: t("Size"), align: "number", hide: "narrow", cell: (one) => bytes(one.sizeBytes) },
  ...(may("operator") ? [{ key: "act", title: t("Action"), cell: (one) => html`<div class="actions">
    <button type="button" aria-label=${`${t("Move")} ${one.id}`} onClick=${() => change({ action: "move", message: one })}>${t("Move")}</button>
    <button type="button" aria-label=${`${t("Cancel for good")} ${one.id}`} onClick=${() => change({ action: "cancel", message: one })}>${t("Cancel for good")}</button></div>` }] : []),
];

function Cancel({ cluster, message, onClose, onDone }) {
  async function cancel() {
    await post(inCluster(cluster, "/scheduled/cancel"), { source: message.source, id: message.id });
    say(t("{id} is cancelled", { id: message.id }));
    onDone();
  }
  return html`<${Dialog} title=${t("Cancel {id}", { id: message.id })} action=${t("Cancel for good")} danger onSubmit=${cancel} onClose=${onClose}>
    <p>${t("The message of topic {topic} that is due {time} is never delivered.", { topic: message.target, time: time(message.dueMs) })}</p><//>`;
}

// A time in the form that its input takes: local, in seconds.
const local = (ms) => new Date(ms - 60000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19);

function Move({ cluster, message, onClose, onDone }) {
  const [due, setDue] = useState(local(message.dueMs));
  async function move() {
    await post(inCluster(cluster, "/scheduled/move"), { source: message.source, id: message.id, dueMs: new Date(due).getTime() });
    say(t("{id} is moved", { id: message.id }));
    onDone();
  }
  return html`<${Dialog} title=${t("Move {id}", { id: message.id })} action=${t("Move")} disabled=${Number.isNaN(new Date(due).getTime())} onSubmit=${move} onClose=${onClose}>
    <${Text} label=${t("New time")} type="datetime-local" step="1" value=${due} onInput=${setDue} /><//>`;
}
