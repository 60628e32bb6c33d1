// The schema by which the bodies of a topic are shown.
import { html, useEffect, useState } from "/static/html.js";
import { may, put, remove } from "/static/api.js";
import { useLive } from "/static/live.js";
import { t } from "/static/words.js";
import { Area, Choice, Text } from "/static/ui/fields.js";
import { Loading, Problem, say } from "/static/ui/notice.js";

export function SchemaTab({ path }) {
  const { value, error, loading, reload } = useLive(path, 0);
  const [form, setForm] = useState({ kind: "avro", text: "", messageType: "" });
  const [failure, setFailure] = useState(null);
  useEffect(() => { if (value?.schema) setForm(value.schema); }, [value]);
  const set = (name) => (text) => setForm({ ...form, [name]: text });
  async function change(act, words) {
    setFailure(null);
    try {
      await act();
      say(words);
      reload();
    } catch (problem) {
      setFailure(problem);
    }
  }
  async function load(event) {
    const bytes = new Uint8Array(await event.target.files[0].arrayBuffer());
    let binary = "";
    for (const one of bytes) binary += String.fromCharCode(one);
    setForm({ ...form, text: btoa(binary) });
  }
  function submit(event) {
    event.preventDefault();
    change(() => put(path, form), t("The schema is set"));
  }
  async function forget() {
    await change(() => remove(path), t("The schema is removed"));
    setForm({ kind: form.kind, text: "", messageType: "" });
  }
  return html`<${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value && html`<form class="fields" onSubmit=${submit}>
      <p class="wide quiet">${t("Messages are looked up with their bodies decoded by this schema. Brokers and clients know nothing of it.")}</p>
      <${Choice} label=${t("Format")} value=${form.kind} onInput=${set("kind")} options=${[["avro", "Avro"], ["protobuf", "Protobuf"]]} />
      ${form.kind === "protobuf" && html`<${Text} label=${t("Message type")} value=${form.messageType} onInput=${set("messageType")} required hint=${t("Full name, such as shop.Order.")} />
        <div class="field"><label for="descriptors">${t("Descriptor file")}</label><input id="descriptors" type="file" onChange=${load} /><small>protoc --include_imports --descriptor_set_out=FILE</small></div>`}
      <${Area} label=${form.kind === "avro" ? t("Avro schema (JSON)") : t("Descriptors (base64)")} value=${form.text} onInput=${set("text")} rows=${10} />
      <div class="wide"><${Problem} error=${failure} /></div>
      ${may("operator") && html`<div class="wide actions"><button type="submit" class="primary" disabled=${!form.text}>${t("Set schema")}</button>${value.schema && html`<button type="button" class="danger-text" onClick=${forget}>${t("Remove schema")}</button>`}</div>`}
    </form>`}`;
}
