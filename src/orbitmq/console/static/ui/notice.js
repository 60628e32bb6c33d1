// Notices of pages: errors with advice, empty lists, and short messages that go by themselves.
import { html, signal } from "/static/html.js";
import { t } from "/static/words.js";

const notices = signal([]);
let next = 1;

export function say(text, kind = "good") {
  const id = next++;
  notices.value = [...notices.value, { id, text, kind }];
  setTimeout(() => { notices.value = notices.value.filter((one) => one.id !== id); }, 6000);
}

export const Notices = () => html`<div class="notices" role="status" aria-live="polite">
  ${notices.value.map((one) => html`<div key=${one.id} class=${`notice ${one.kind}`}>${one.text}</div>`)}
</div>`;

export function Problem({ error, retry }) {
  if (!error) return null;
  const problem = error.problem ?? { code: "FAILED", title: String(error) };
  return html`<div class="problem" role="alert">
    <strong>${problem.title}</strong>
    ${problem.field && html`<div><code>${problem.field}</code></div>`}
    ${problem.advice && html`<div>${problem.advice}</div>`}
    <div class="quiet"><code>${problem.code}</code></div>
    ${retry && html`<button type="button" onClick=${retry}>${t("Try again")}</button>`}
  </div>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><strong>${title}</strong><div>${children}</div></div>`;
export const Loading = () => html`<div class="loading" role="status"><span class="spinner"></span>${t("Loading")}</div>`;
