// Fields of forms: a label, the input, a hint, and the input's own state handed up.
import { html } from "/static/html.js";
import { t } from "/static/words.js";

let next = 1;
const ids = new Map();
function idOf(label) {
  if (!ids.has(label)) ids.set(label, `field-${next++}`);
  return ids.get(label);
}

export function Text({ label, hint, value, onInput, type = "text", wide, ...rest }) {
  const id = idOf(label);
  return html`<div class=${`field ${wide ? "wide" : ""}`}><label for=${id}>${label}</label>
    <input id=${id} type=${type} value=${value} onInput=${(event) => onInput(event.target.value)} aria-describedby=${hint ? `${id}-hint` : undefined} autocomplete="off" spellcheck="false" ...${rest} />
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}</div>`;
}

export function Area({ label, hint, value, onInput, rows = 6 }) {
  const id = idOf(label);
  return html`<div class="field wide"><label for=${id}>${label}</label>
    <textarea id=${id} rows=${rows} spellcheck="false" onInput=${(event) => onInput(event.target.value)} value=${value}></textarea>
    ${hint && html`<small>${hint}</small>`}</div>`;
}

export function Choice({ label, hint, value, onInput, options }) {
  const id = idOf(label);
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(event) => onInput(event.target.value)}>
      ${options.map(([name, title]) => html`<option key=${name} value=${name} selected=${name === value}>${title}</option>`)}
    </select>${hint && html`<small>${hint}</small>`}</div>`;
}

export function Check({ label, hint, value, onInput }) {
  const id = idOf(label);
  return html`<div class="field check"><input id=${id} type="checkbox" checked=${value} onChange=${(event) => onInput(event.target.checked)} /><label for=${id}>${label}</label>${hint && html`<small>${hint}</small>`}</div>`;
}

// Names and values, a line each; an empty line at the end takes a new one.
export function Pairs({ label, value, onInput }) {
  const rows = [...value, ["", ""]];
  const set = (index, at, text) => {
    const changed = rows.map((row, number) => (number === index ? (at ? [row[0], text] : [text, row[1]]) : row));
    onInput(changed.filter(([name, text]) => name || text));
  };
  return html`<fieldset class="field wide"><legend>${label}</legend>
    ${rows.map(([name, text], index) => html`<div class="pair" key=${index}>
      <input type="text" aria-label=${`${label}: ${t("name")} ${index + 1}`} placeholder=${t("name")} value=${name} onInput=${(event) => set(index, 0, event.target.value)} spellcheck="false" />
      <input type="text" aria-label=${`${label}: ${t("value")} ${index + 1}`} placeholder=${t("value")} value=${text} onInput=${(event) => set(index, 1, event.target.value)} spellcheck="false" />
    </div>`)}</fieldset>`;
}

export const Filter = ({ label, value, onInput }) => html`<div class="filter"><input type="search" id="filter" aria-label=${label} placeholder=${`${label}  /`} value=${value} onInput=${(event) => onInput(event.target.value)} spellcheck="false" autocomplete="off" /></div>`;

export const Chips = ({ label, value, options, onInput }) => html`<div class="chips" role="group" aria-label=${label}>
  ${options.map(([name, title]) => html`<button key=${name} type="button" class="chip" aria-pressed=${name === value} onClick=${() => onInput(name)}>${title}</button>`)}
</div>`;
