// Notices of pages: errors with advice, empty lists, and short messages that go by themselves.
import { html, signal } from "/static/html.js";
import { span } from "/static/format.js";
import { t } from "/static/words.js";

const notices = signal([]);
let next = 1;

export function say(text, kind = "good") {
  const id = next++;
  notices.value = [...notices.value, { id, text, kind }];
  setTimeout(() => { notices.value = notices.value.filter((one) => one.id !== id); }, 6000);
}

// An error where there is no room for a whole problem: with the advice that comes with it.
export const complain = (error) => say([error.message, t(error.problem?.advice ?? "")].filter(Boolean).join(". "), "bad");

// Puts a text on the clipboard, and says so.
export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say(t("The browser does not allow copying here: the console has to be opened by https, or on this machine"), "bad");
  }
}

export const Notices = () => html`<div class="notices" role="status" aria-live="polite">
  ${notices.value.map((one) => html`<div key=${one.id} class=${`notice ${one.kind}`}>${one.text}</div>`)}
</div>`;

export function Problem({ error, retry }) {
  if (!error) return null;
  const problem = error.problem ?? { code: "FAILED", title: String(error), advice: t("The page has a fault: load it again, and report it if it comes back.") };
  return html`<div class="problem" role="alert">
    <strong>${problem.title}</strong>
    ${problem.field && html`<div><code>${problem.field}</code></div>`}
    ${problem.advice && html`<div>${t(problem.advice)}</div>`}
    <div class="quiet"><code>${problem.code}</code></div>
    ${retry && html`<button type="button" onClick=${retry}>${t("Try again")}</button>`}
  </div>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><strong>${title}</strong><div>${children}</div></div>`;
export const Loading = () => html`<div class="loading" role="status"><span class="spinner"></span>${t("Loading")}</div>`;

// Brokers that run for less than a day have figures of less than a day.
export function YoungBrokers({ brokers }) {
  const young = Object.entries(brokers).map(([name, hours]) => t("{broker} for {time}", { broker: name, time: span(3600000 * hours) }));
  return young.length > 0 && html`<div class="quiet">${t("Brokers that run for less than 24 h count since their start: {brokers}", { brokers: young.join(", ") })}</div>`;
}
