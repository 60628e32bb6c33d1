import { html, useEffect, useMemo, useState } from "/static/html.js";
import { get, inCluster, may, part } from "/static/api.js";
import { useLive, useTask } from "/static/live.js";
import { bytes, moment, number, time } from "/static/format.js";
import { address, go, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Chips, Text } from "/static/ui/fields.js";
import { complain, copy, Empty, Loading, Problem } from "/static/ui/notice.js";

const SHOWN_TEXT = 256 * 1024;
const SHOWN_HEX = 4096;
const SHOWN_PROPERTIES = 500;
const LIFE = ["topic", "uniqueId"];
const FIELDS = { key: ["topic", "key"], unique: ["topic", "uniqueId"], id: ["id"], place: ["topic", "broker", "queueId", "offset"], time: ["topic", "from"], text: ["topic", "text", "from", "budget"], life: LIFE };
const ways = () => [["key", t("Key")], ["unique", t("Unique id")], ["id", t("Message id")], ["place", t("Place")], ["time", t("Time")], ["text", t("Text")], ["life", t("Life")]];
const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19);

export function Messages({ cluster }) {
  const query = place.value.query;
  const by = query.get("by") in FIELDS ? query.get("by") : "key";
  const [form, setForm] = useState(() => ({ topic: "", key: "", uniqueId: "", id: "", broker: "", queueId: "0", offset: "0", text: "", budget: "100000", from: local(Date.now() - 3600000), ...Object.fromEntries(query) }));
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  const asked = request(cluster, by, query);
  // A link within this page leads to another question: its parts are in the address.
  useEffect(() => setForm((before) => ({ ...before, ...Object.fromEntries(query) })), [asked]);
  const path = by === "text" || by === "life" ? null : asked;
  const [round, setRound] = useState(0);
  const { value, error, loading, reload } = useLive(path, 0);
  function submit(event) {
    event.preventDefault();
    const to = address(cluster, "messages", "", { by, ...Object.fromEntries(FIELDS[by].map((name) => [name, form[name].trim()])) });
    if (to === location.pathname + location.search) { reload(); setRound(round + 1); }
    else go(to);
  }
  const labels = { topic: t("Topic"), key: t("Key"), uniqueId: t("Unique id"), id: t("Message id"), broker: t("Broker"), queueId: t("Queue"), offset: t("Offset"), from: t("Stored from"), text: t("Text in body or properties"), budget: t("Messages to read at most") };
  const types = { queueId: { type: "number", min: 0 }, offset: { type: "number", min: 0 }, from: { type: "datetime-local", step: 1 }, budget: { type: "number", min: 1, max: 10000000 } };
  return html`
    <h1>${t("Messages")}</h1>
    <section class="card"><form class="fields" onSubmit=${submit}>
      <div class="wide"><${Chips} label=${t("Look up by")} value=${by} options=${ways()} onInput=${(way) => go(address(cluster, "messages", "", { by: way, topic: form.topic }), { replace: true })} /></div>
      ${FIELDS[by].map((name) => html`<${Text} key=${name} label=${labels[name]} value=${form[name]} onInput=${set(name)} required ...${types[name] ?? {}} />`)}
      <div class="wide"><button type="submit" class="primary">${t("Look up")}</button></div>
    </form></section>
    <${Problem} error=${error} retry=${reload} />
    ${loading && html`<${Loading} />`}
    ${by === "life" && asked && html`<${Life} key=${`${asked} ${round}`} cluster=${cluster} path=${asked} />`}
    ${by === "text" && asked && html`<${Search} key=${`${asked} ${round}`} path=${asked} />`}
    ${!asked && html`<${Empty} title=${t("No message was looked for yet")}>${t("Give a key, an id, a place or a time.")}<//>`}
    ${value && !value.messages.length && html`<${Empty} title=${t("No message from this time on")}><//>`}
    ${value?.messages.length > 0 && html`<div class="tools"><span class="quiet" role="status">${t("Messages: {count}", { count: number(value.messages.length) })}</span><${Download} path=${asked} /></div>
      <div class="messages">${value.messages.map((one) => html`<${Message} key=${one.id + one.queueOffset} message=${one} open=${value.messages.length === 1} />`)}</div>`}`;
}

// The question to the API, once all its parts are in the address.
function request(cluster, by, query) {
  const values = Object.fromEntries(FIELDS[by].map((name) => [name, query.get(name) ?? ""]));
  if (Object.values(values).some((text) => !text)) return null;
  if (by === "time" || by === "text") {
    values.fromMs = new Date(values.from).getTime();
    delete values.from;
    if (!Number.isFinite(values.fromMs)) return null;
  }
  if (by === "text") {
    const { topic, ...rest } = values;
    return inCluster(cluster, `/topics/${part(topic)}/search?${new URLSearchParams(rest)}`);
  }
  if (by === "life") return inCluster(cluster, `/message-life?${new URLSearchParams(values)}`);
  return inCluster(cluster, `/messages?${new URLSearchParams(values)}`);
}

// A search of the server's: what it finds is shown while it goes on, and it ends where it is stopped.
function Search({ path }) {
  const [messages, setMessages] = useState([]);
  const { value, error, running, stop, restart } = useTask(path, (event) => setMessages((before) => [...before, ...event.messages]));
  const ends = { all: t("All was read."), budget: t("The budget is used up: take a later time or a larger budget."), bytes: t("So many bodies as a search may inflate were read: take a later time, or a tag or filter."), enough: t("Enough was found: narrow the search for more.") };
  return html`<${Problem} error=${error} retry=${() => { setMessages([]); restart(); }} />
    <div class="tools" role="status">${running && html`<progress max=${value?.total || 1} value=${value?.scanned ?? 0} aria-label=${t("Progress")}></progress>`}
      ${t("{found} found, {scanned} of {total} messages read.", { found: number(messages.length), scanned: number(value?.scanned ?? 0), total: number(value?.total ?? 0) })} ${running ? html`<button type="button" onClick=${stop}>${t("Stop reading")}</button>` : ends[value?.end] ?? t("The search was stopped.")}${!running && html` <${Download} path=${path} />`}</div>
    ${value?.unread > 0 && html`<p class="note">${t("{count} bodies were not searched: {reason}", { count: number(value.unread), reason: value.unreadReason })}</p>`}
    <div class="messages">${messages.map((one) => html`<${Message} key=${one.id + one.queueOffset} message=${one} open=${false} />`)}</div>`;
}

// The life of one message, the earliest event first; below it what holds now.
function Life({ cluster, path }) {
  const { value, error, loading, reload } = useLive(path, 0);
  const steps = { sent: t("sent"), waited: t("waited"), stored: t("stored"), delivered: t("delivered"), handled: t("handled"), retry: t("retry"), dead: t("dead letter"), resent: t("resent"), passed: t("passed"), waiting: t("still waiting") };
  const sources = { log: t("log"), offsets: t("offsets"), trace: t("trace") };
  return html`<${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value && html`<section class="card"><div class="head-row titled"><h2>${t("Life")}</h2><${Download} path=${path} /></div>
      <ol class="life">${value.events.map((one, index) => html`<li key=${index} class=${one.isBad ? "bad" : ""}>
        <time>${one.atMs == null ? t("now") : moment(one.atMs)}</time><div><strong>${steps[one.step] ?? one.step}</strong> <span class="tag">${sources[one.source] ?? one.source}</span><div>${one.sentence}</div>
        ${one.messageId && html`<a class="mono" href=${address(cluster, "messages", "", { by: "id", id: one.messageId })}>${one.messageId}</a>`}${one.step === "dead" && html` <a href=${address(cluster, "dead-letters", one.group)}>${t("Dead letters")}</a>`}</div></li>`)}</ol>
      ${value.missing.map((one) => html`<p class="note quiet" key=${one}>${one}</p>`)}</section>
      <${Message} message=${value.message} open=${false} />`}`;
}

export function Message({ message: listed, open, isOfTopic, children }) {
  // The parts of a message that nobody has opened are not made: bodies are large, and lists are long.
  const [opened, setOpened] = useState(open);
  const [whole, setWhole] = useState(null);
  const message = whole ?? listed;
  const facts = [
    [t("Message id"), message.id], [t("Unique id"), message.uniqueId ?? "–"], [t("Stored"), `${time(message.storedMs)} · ${message.storeHost}`], [t("Sent"), time(message.bornMs)], [t("Sent by"), message.bornHost],
    [t("Physical offset"), number(message.physicalOffset)], [t("Delivered again"), number(message.reconsumeTimes)],
  ];
  return html`<details class="card message" open=${open} onToggle=${(event) => event.currentTarget.open && setOpened(true)}><summary>
      ${!isOfTopic && html`<span class="mono">${message.topic}</span>`}<span>${t("Queue")} ${message.queueId} · ${number(message.queueOffset)}</span>
      ${message.tags && html`<span class="tag">${visible(message.tags)}</span>`}${message.keys.map((key) => html`<span class="tag mono" key=${key}>${visible(key)}</span>`)}
      <span class="quiet">${time(message.storedMs)} · ${sizeOf(message)}</span><span class="preview mono">${previewOf(message)}</span></summary>
    ${(opened || open) && html`<div class="pad"><dl class="list">${facts.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd class="mono">${text}</dd></div>`)}</dl>
      <div class="actions">${message.uniqueId && !message.topic.startsWith("%") && html`<a class="button" href=${address(place.value.cluster, "messages", "", { by: "life", topic: message.topic, uniqueId: message.uniqueId })}>${t("Life of this message")}</a>`}
        ${message.broker && may("operator") && !message.topic.startsWith("%") && html`<a class="button" href=${address(place.value.cluster, "topics", message.topic, { tab: "publish", copy: `${message.broker}/${message.queueId}/${message.queueOffset}` })}>${t("Publish a copy")}</a>`}
        <button type="button" onClick=${() => copy(linkTo(message), t("The link is copied"))}>${t("Copy link")}</button></div><h2>${t("Properties")}</h2><dl class="list">${Object.entries(message.properties).slice(0, SHOWN_PROPERTIES).map(([name, text]) => html`<div key=${name}><dt class="mono">${visible(name)}</dt><dd class="mono">${visible(text)}</dd></div>`)}</dl>${Object.keys(message.properties).length > SHOWN_PROPERTIES && html`<p class="quiet">${t("The first {shown} of {size}.", { shown: number(SHOWN_PROPERTIES), size: number(Object.keys(message.properties).length) })}</p>`}
      <h2>${t("Body")}</h2><${Body} key=${whole ? "whole" : "listed"} message=${message} onWhole=${setWhole} />${children}</div>`}
  </details>`;
}

const PREVIEW_CHARACTERS = 200;

// The beginning of a body in one line: decoded by the topic's schema, text, or hexadecimal. No more of it is looked at than
// that takes, so a list with large bodies stays quick.
export function previewOf(message) {
  if (message.decoded) return oneLine(message.decoded.slice(0, PREVIEW_CHARACTERS * 2));
  const data = Uint8Array.from(atob(message.body.slice(0, PREVIEW_CHARACTERS * 4)), (letter) => letter.charCodeAt(0));
  if (!data.length) return message.bodyProblem ?? t("empty");
  const text = decoded(data, message.isCut || message.body.length > PREVIEW_CHARACTERS * 4);
  if (text !== null) return oneLine(text);
  const some = [...data.slice(0, 24)].map((value) => value.toString(16).padStart(2, "0")).join(" ");
  return data.length > 24 || message.isCut ? `${some} …` : some;
}

function oneLine(text) {
  const line = visible(text.replace(/\s+/g, " ").trim());
  return line.length > PREVIEW_CHARACTERS ? `${line.slice(0, PREVIEW_CHARACTERS)}…` : line;
}

// Of a compressed body that was not inflated to its end, nobody knows the size.
const sizeOf = (message) => (message.bodySize == null && !message.body ? "–" : message.bodySize == null ? t("more than {shown}", { shown: bytes((message.body.length / 4) * 3) }) : bytes(message.bodySize));

export function Body({ message, onWhole }) {
  const data = useMemo(() => Uint8Array.from(atob(message.body), (letter) => letter.charCodeAt(0)), [message]);
  const text = useMemo(() => decoded(data, message.isCut), [data]);
  const json = useMemo(() => parsed(text), [text]);
  const kind = { avro: "Avro", protobuf: "Protobuf" }[message.decodedAs];
  const [view, setView] = useState(kind ? "decoded" : json.value !== undefined ? "json" : text === null ? "hex" : "text");
  if (!data.length && !message.decoded) return html`<p class="quiet">${message.bodyProblem ?? t("The body is empty.")}</p>`;
  async function load() {
    try {
      onWhole(await wholeOf(message));
    } catch (error) {
      complain(error);
    }
  }
  const limit = view === "hex" ? SHOWN_HEX : SHOWN_TEXT;
  const shown = Math.min(data.length, limit);
  let content;
  if (view === "decoded") content = visible(message.decoded ?? message.decodeError ?? "");
  else if (view === "hex" || text === null) content = dump(data.subarray(0, SHOWN_HEX));
  else if (view === "json") content = json.value === undefined ? t("The body is not JSON: {reason}", { reason: json.reason }) : json.value.slice(0, SHOWN_TEXT);
  else content = visible(text.slice(0, SHOWN_TEXT));
  return html`<${Chips} label=${t("Show as")} value=${view} options=${[...(kind ? [["decoded", kind]] : []), ...(text === null || !data.length ? [] : [["text", t("Text")], ["json", "JSON"]]), ...(data.length ? [["hex", "Hex"]] : [])]} onInput=${setView} />
    <div class="actions"><button type="button" onClick=${() => copy(content, t("The body is copied as it is shown"))}>${t("Copy body")}</button></div>
    <pre class="body" tabindex="0" aria-label=${t("Body")}>${content}</pre>
    ${message.bodyProblem && !data.length ? html`<p class="quiet">${message.bodyProblem}</p>` : message.bodyProblem ? html`<p class="note">${t("The first {shown}: {reason}", { shown: bytes(data.length), reason: message.bodyProblem })}</p>` : message.isCut ? html`<div class="tools"><span class="quiet">${t("The first {shown} of {size}.", { shown: bytes(data.length), size: message.bodySize == null ? t("a larger body") : bytes(message.bodySize) })}</span><button type="button" onClick=${load}>${t("Load all of it")}</button></div>` : view !== "decoded" && shown < data.length && html`<p class="quiet">${t("The first {shown} of {size}.", { shown: bytes(shown), size: bytes(data.length) })}</p>`}`;
}

// The address of one message alone.
function linkTo({ topic, broker, queueId, queueOffset: offset, id }) {
  return location.origin + address(place.value.cluster, "messages", "", broker ? { by: "place", topic, broker, queueId: String(queueId), offset: String(offset) } : { by: "id", id });
}

// The message with all of its body, looked up by its place: by its id where the broker is not known.
async function wholeOf({ topic, broker, queueId, queueOffset: offset, id }) {
  const query = broker ? { topic, broker, queueId, offset } : { topic, id };
  return (await get(inCluster(place.value.cluster, `/messages?${new URLSearchParams(query)}`))).messages[0];
}

function decoded(data, isCut) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: isCut });
  } catch {
    return null;
  }
}

function parsed(text) {
  if (text === null) return { reason: "UTF-8" };
  try {
    return { value: JSON.stringify(JSON.parse(text), null, 2) };
  } catch (error) {
    return { reason: error.message };
  }
}

// Control characters, and those that turn the direction of text around, are shown as what they are.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);

function dump(data) {
  const lines = [];
  for (let start = 0; start < data.length; start += 16) {
    const row = [...data.subarray(start, start + 16)];
    const codes = row.map((value) => value.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((value) => (value >= 32 && value < 127 ? String.fromCharCode(value) : "·")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${codes.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}
