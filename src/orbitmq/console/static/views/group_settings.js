// The settings of a consumer group, for a new one and for changes.
import { html } from "/static/html.js";
import { t } from "/static/words.js";
import { Check, Text } from "/static/ui/fields.js";

export const NEW_GROUP = { maxRetries: "16", retryQueues: "1", enabled: true, broadcast: true, orderly: false };
export const toSettings = (value) => ({ ...value, maxRetries: String(value.maxRetries), retryQueues: String(value.retryQueues) });
export const fromSettings = (form) => ({ ...form, maxRetries: Number(form.maxRetries), retryQueues: Number(form.retryQueues) });

export function GroupFields({ form, onInput }) {
  const set = (name) => (value) => onInput({ ...form, [name]: value });
  return html`<div class="fields">
    <${Text} label=${t("Retries before a dead letter")} type="number" min="-1" max="1000000" required value=${form.maxRetries} onInput=${set("maxRetries")} />
    <${Text} label=${t("Retry queues per broker")} type="number" min="0" max="1024" required value=${form.retryQueues} onInput=${set("retryQueues")} />
    <${Check} label=${t("Brokers give the group messages")} value=${form.enabled} onInput=${set("enabled")} />
    <${Check} label=${t("Members may broadcast")} value=${form.broadcast} onInput=${set("broadcast")} />
    <${Check} label=${t("Members that pop get the messages of a queue in order")} value=${form.orderly} onInput=${set("orderly")} />
  </div>`;
}
