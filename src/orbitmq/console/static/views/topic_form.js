// The settings of a topic, for a new one and for changes.
import { html } from "/static/html.js";
import { t } from "/static/words.js";
import { Check, Choice, Pairs, Text } from "/static/ui/fields.js";

export const NEW = { queues: "8", readQueues: "", perm: "6", order: false, type: "", attributes: [] };
const TYPE = "message.type";

export function toForm(topic) {
  const route = topic.routes[0] ?? { writeQueues: 8, readQueues: 8, perm: 6 };
  const attributes = Object.entries(topic.attributes ?? {}).filter(([name]) => name !== TYPE);
  return {
    queues: String(route.writeQueues), readQueues: String(route.readQueues), perm: String(route.perm), order: Boolean(topic.order),
    type: topic.attributes?.[TYPE] ?? "", attributes,
  };
}

// `before` is the topic as it was: an attribute that is gone is sent empty, which removes it.
export function fromForm(form, before) {
  const removed = Object.fromEntries(Object.keys(before?.attributes ?? {}).map((name) => [name, ""]));
  const attributes = { ...removed, ...Object.fromEntries(form.attributes.filter(([name]) => name)) };
  if (form.type) attributes[TYPE] = form.type;
  const settings = { queues: Number(form.queues), perm: Number(form.perm), order: form.order, attributes };
  return form.readQueues ? { ...settings, readQueues: Number(form.readQueues) } : settings;
}

export function TopicFields({ form, onInput, isNew }) {
  const set = (name) => (value) => onInput({ ...form, [name]: value });
  return html`<div class="fields">
    <${Text} label=${t("Write queues per broker")} type="number" min="1" max="1024" required value=${form.queues} onInput=${set("queues")} />
    <${Text} label=${t("Read queues per broker")} type="number" min="1" max="1024" value=${form.readQueues} onInput=${set("readQueues")} hint=${t("As many as write queues, if empty.")} />
    <${Choice} label=${t("Permission")} value=${form.perm} onInput=${set("perm")} options=${[["6", t("read and write")], ["4", t("read only")], ["2", t("write only")], ["0", t("none")]]} />
    ${isNew
      ? html`<${Choice} label=${t("Message type")} value=${form.type} onInput=${set("type")} options=${[["", t("not set")], ["NORMAL", "NORMAL"], ["FIFO", "FIFO"], ["DELAY", "DELAY"], ["TRANSACTION", "TRANSACTION"]]} />`
      : html`<${Text} label=${t("Message type")} value=${form.type || "–"} onInput=${() => {}} disabled />`}
    <${Check} label=${t("Keep all queues in the route while a broker is gone")} value=${form.order} onInput=${set("order")} />
    <${Pairs} label=${t("Attributes")} value=${form.attributes} onInput=${set("attributes")} />
  </div>`;
}
