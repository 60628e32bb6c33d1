import { html, useEffect, useState } from "/static/html.js";
import { get, inCluster, may, part, post, put, remove } from "/static/api.js";
import { useLive } from "/static/live.js";
import { ago, number, perm, rate, time } from "/static/format.js";
import { address, filter, go, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Area, Choice, Pairs, Text } from "/static/ui/fields.js";
import { Dialog } from "/static/ui/dialog.js";
import { Empty, Loading, Problem, say, YoungBrokers } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";
import { Tabs } from "/static/ui/tabs.js";
import { SchemaTab } from "/static/views/schema.js";
import { Newest } from "/static/views/newest.js";
import { Tail } from "/static/views/tail.js";
import { fromForm, toForm, TopicFields } from "/static/views/topic_form.js";

export function TopicView({ cluster, name }) {
  const path = inCluster(cluster, `/topics/${part(name)}`);
  const { value, error, loading, reload } = useLive(path, 10);
  const [dialog, setDialog] = useState("");
  const tab = place.value.query.get("tab") ?? "queues";
  const tabs = [["queues", t("Queues")], ["messages", t("Messages")], ["routes", t("Routes")], ["groups", t("Groups")], ["tail", t("Live tail")], ["schema", t("Schema")], ...(may("operator") ? [["publish", t("Publish")]] : [])];
  const messages = value?.messages;
  const canChange = value && may("admin") && value.kind !== "system";
  return html`
    <nav class="crumbs" aria-label=${t("Path")}><a href=${address(cluster, "topics")}>${t("Topics")}</a> / </nav>
    <div class="head-row"><h1 class="mono">${name}</h1><div class="actions">${value && may("admin") && html`<a class="button" href=${address(cluster, "topics", "", { like: name })}>${t("Clone")}</a>`}${canChange && html`<button type="button" onClick=${() => setDialog("change")}>${t("Change")}</button><button type="button" class="danger-text" onClick=${() => setDialog("delete")}>${t("Delete")}</button>`}</div></div>
    <${Problem} error=${error} retry=${reload} />
    ${loading && html`<${Loading} />`}
    ${value && html`
      <dl class="facts">
        <div><dt>${t("Messages")}</dt><dd>${number(messages)}</dd></div><div><dt>${t("In/s")}</dt><dd>${rate(value.inTps)}</dd></div>
        <div><dt>${t("In 24 h")}</dt><dd>${number(value.inDay)}<${YoungBrokers} brokers=${value.youngBrokers} /></dd></div><div><dt>${t("Queues")}</dt><dd>${number(value.queueCount)}</dd></div>
        ${Object.entries(value.attributes ?? {}).map(([key, text]) => html`<div key=${key}><dt>${key}</dt><dd>${text}</dd></div>`)}
      </dl>
      <${Tabs} label=${t("Parts of the topic")} tabs=${tabs} current=${tab} />
      ${(tab === "queues" || tab === "routes") && html`<div class="tools"><${Download} path=${tab === "queues" && !value.queues.length ? `${path}/queues` : path} rows=${tab} /></div>`}
      <section class="card">
        ${tab === "queues" && html`<${Queues} topic=${value} path=${path} />`}
        ${tab === "schema" && html`<${SchemaTab} path=${`${path}/schema`} />`}
        ${tab === "routes" && html`<${Routes} topic=${value} />`}
        ${tab === "groups" && html`<${Groups} topic=${value} cluster=${cluster} />`}
        ${tab === "messages" && html`<${Newest} path=${path} />`}
        ${tab === "tail" && html`<${Tail} path=${path} />`}
        ${tab === "publish" && may("operator") && html`<${Publish} cluster=${cluster} topic=${name} path=${path} onSent=${reload} />`}
      </section>
      ${dialog === "change" && html`<${Change} path=${path} topic=${value} onClose=${() => setDialog("")} onDone=${() => { setDialog(""); reload(); }} />`}
      ${dialog === "delete" && html`<${Delete} path=${path} cluster=${cluster} name=${name} messages=${messages} groups=${value.groups} onClose=${() => setDialog("")} />`}`}`;
}

const PAGE = 100;

function Queues({ topic, path }) {
  // Of a topic with very many queues the server gives a page at a time.
  const isPaged = !topic.queues.length && topic.queueCount > 0;
  const skip = Math.max(0, Number(place.value.query.get("skip")) || 0);
  const { value: page, error, reload } = useLive(isPaged ? `${path}/queues?${new URLSearchParams({ skip, max: PAGE })}` : null, 10);
  const queues = isPaged ? page?.queues : topic.queues;
  const most = Math.max(1, ...(queues ?? []).map((one) => one.maxOffset - one.minOffset));
  const to = (first) => filter({ skip: first > 0 ? first : "" });
  const columns = [
    { key: "broker", title: t("Broker"), cell: (one) => one.broker },
    { key: "queue", title: t("Queue"), align: "number", cell: (one) => one.queueId },
    { key: "min", title: t("Min offset"), align: "number", hide: "narrow", cell: (one) => number(one.minOffset) },
    { key: "max", title: t("Max offset"), align: "number", cell: (one) => number(one.maxOffset) },
    { key: "messages", title: t("Messages"), align: "number", cell: (one) => number(one.maxOffset - one.minOffset) },
    { key: "share", title: t("Share"), hide: "narrow", cell: (one) => html`<span class="bar"><progress max=${most} value=${one.maxOffset - one.minOffset} aria-label=${t("Share")}></progress></span>` },
    { key: "last", title: t("Last stored"), align: "number", hide: "narrow", cell: (one) => html`<span title=${time(one.lastMs)}>${one.lastMs > 0 ? t("{age} ago", { age: ago(one.lastMs) }) : "–"}</span>` },
  ];
  return html`${isPaged && html`<div class="pad tools"><span class="quiet" role="status">${t("{from} to {to} of {count} queues", { from: number(skip + 1), to: number(Math.min(skip + PAGE, topic.queueCount)), count: number(topic.queueCount) })}</span>
      <${Go} value=${skip} most=${topic.queueCount - 1} onGo=${to} />
      <div class="actions"><button type="button" disabled=${skip === 0} onClick=${() => to(skip - PAGE)}>${t("Previous")}</button><button type="button" disabled=${skip + PAGE >= topic.queueCount} onClick=${() => to(skip + PAGE)}>${t("Next")}</button></div></div>
      <${Problem} error=${error} retry=${reload} />`}
    ${queues ? html`<${Table} label=${t("Queues")} rows=${queues} rowKey=${(one) => `${one.broker} ${one.queueId}`} columns=${columns} empty=${html`<${Empty} title=${t("No queue can be reached")}><//>`} />` : html`<${Loading} />`}`;
}

function Go({ value, most, onGo }) {
  const [text, setText] = useState("");
  return html`<form class="actions" onSubmit=${(event) => { event.preventDefault(); onGo(Number(text)); }}><input type="number" min="0" max=${most} required aria-label=${t("First queue of the page")} placeholder=${value} value=${text} onInput=${(event) => setText(event.target.value)} /><button type="submit">${t("Go to")}</button></form>`;
}

function Routes({ topic }) {
  const columns = [
    { key: "broker", title: t("Broker"), cell: (one) => html`<strong>${one.broker}</strong> <span class="quiet">${one.cluster ?? ""}</span>` },
    { key: "addresses", title: t("Addresses"), cell: (one) => Object.entries(one.addresses).map(([id, text]) => html`<div key=${id}><code>${text}</code> <span class="quiet">${id === "0" ? t("master") : t("slave {id}", { id })}</span></div>`) },
    { key: "read", title: t("Read queues"), align: "number", cell: (one) => one.readQueues },
    { key: "write", title: t("Write queues"), align: "number", cell: (one) => one.writeQueues },
    { key: "perm", title: t("Permission"), cell: (one) => html`<code>${perm(one.perm)}</code>` },
  ];
  return html`<${Table} label=${t("Routes")} rows=${topic.routes} rowKey=${(one) => one.broker} columns=${columns} empty=${html`<${Empty} title=${t("No broker has this topic")}><//>`} />`;
}

function Groups({ topic, cluster }) {
  const { value } = useLive(topic.groups.length ? inCluster(cluster, "/groups") : null, 10);
  const known = new Map((value?.groups ?? []).map((one) => [one.group, one]));
  if (!topic.groups.length) return html`<${Empty} title=${t("No group consumes this topic")}>${t("Start one: orbitmq consume --topic {name} --group NAME", { name: topic.name })}<//>`;
  const columns = [
    { key: "group", title: t("Group"), cell: (one) => html`<a class="mono" href=${address(cluster, "groups", one.group)}>${one.group}</a>` },
    { key: "members", title: t("Members"), align: "number", cell: (one) => number(one.members) },
    { key: "lag", title: t("Lag"), align: "number", cell: (one) => number(one.lag) },
    { key: "tps", title: t("Out/s"), align: "number", hide: "narrow", cell: (one) => rate(one.tps) },
    { key: "dead", title: t("Dead letters"), align: "number", cell: (one) => number(one.deadLetters) },
    { key: "why", title: t("Cause"), cell: (one) => one.lag > 0 && html`<a href=${address(cluster, "groups", one.group, { tab: "why" })} aria-label=${t("Why is {name} behind?", { name: one.group })}>${t("Why?")}</a>` },
  ];
  return html`<${Table} label=${t("Groups")} rows=${topic.groups.map((group) => known.get(group) ?? { group })} rowKey=${(one) => one.group} columns=${columns} /><p class="note quiet">${t("Figures of a group are those of all its topics.")}</p>`;
}

function Change({ path, topic, onClose, onDone }) {
  const [form, setForm] = useState(() => toForm(topic));
  async function change() {
    await put(path, fromForm(form, topic));
    say(t("Topic {name} is changed", { name: topic.name }));
    onDone();
  }
  return html`<${Dialog} title=${t("Change {name}", { name: topic.name })} action=${t("Change")} onSubmit=${change} onClose=${onClose}><${TopicFields} form=${form} onInput=${setForm} /><//>`;
}

function Delete({ path, cluster, name, messages, groups, onClose }) {
  const [typed, setTyped] = useState("");
  async function erase() {
    await remove(path, { confirm: typed });
    say(t("Topic {name} is deleted", { name }));
    go(address(cluster, "topics"));
  }
  return html`<${Dialog} title=${t("Delete {name}", { name })} action=${t("Delete for good")} danger disabled=${typed !== name} onSubmit=${erase} onClose=${onClose}>
    <p>${t("This deletes its messages ({messages}) and the offsets of its groups ({groups}). It cannot be undone.", { messages: number(messages), groups: groups.length })}</p>
    <${Text} label=${t("Type the name of the topic to confirm")} value=${typed} onInput=${setTyped} wide />
  <//>`;
}

const DELAYS = ["1 s", "5 s", "10 s", "30 s", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min", "8 min", "9 min", "10 min", "20 min", "30 min", "1 h", "2 h"];

const EMPTY = { text: "", as: "text", tag: "", keys: "", orderKey: "", delay: "0", at: "", properties: [] };

// The place of a message to publish a copy of: BROKER/QUEUE/OFFSET.
async function copyOf(cluster, topic, place) {
  const [, broker, queueId, offset] = /^(.*)\/(\d+)\/(\d+)$/.exec(place) ?? [];
  const [one] = (await get(inCluster(cluster, `/messages?${new URLSearchParams({ topic, broker, queueId, offset })}`))).messages;
  if (one.isMasked || one.bodyProblem) return null;
  const data = Uint8Array.from(atob(one.body), (letter) => letter.charCodeAt(0));
  let text = null;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    // Not text: it is published as the bytes that it is.
  }
  return { ...EMPTY, text: text ?? one.body, as: text === null ? "base64" : "text", tag: one.tags ?? "", keys: one.keys.join(" "), properties: Object.entries(one.own) };
}

function Publish({ cluster, topic, path, onSent }) {
  const [form, setForm] = useState(EMPTY);
  const copied = place.value.query.get("copy");
  useEffect(() => {
    if (!copied) return;
    copyOf(cluster, topic, copied).then((found) => (found ? setForm(found) : setError({ problem: { code: "MASKED", title: t("The body of this message is not shown to you in full"), advice: t("Publish a message of your own.") } })), setError);
  }, [copied]);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [sent, setSent] = useState(null);
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  async function send(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      setSent(await post(`${path}/messages`, {
        [form.as]: form.as === "base64" ? form.text.replace(/\s/g, "") : form.text, tag: form.tag || null, keys: form.keys.split(/\s+/).filter(Boolean), orderKey: form.orderKey || null,
        ...(form.delay === "at" ? { delayMs: Math.max(0, Date.parse(form.at) - Date.now()) } : { delayLevel: Number(form.delay) }), properties: Object.fromEntries(form.properties.filter(([name]) => name)),
      }));
      onSent();
    } catch (failure) {
      setSent(null);
      setError(failure);
    }
    setBusy(false);
  }
  return html`<form class="fields" onSubmit=${send}>
    <${Area} label=${t("Body")} value=${form.text} onInput=${set("text")} />
    <${Choice} label=${t("Encoding")} value=${form.as} onInput=${set("as")} options=${[["text", t("Text")], ["base64", "Base64"]]} />
    <${Text} label=${t("Tag")} value=${form.tag} onInput=${set("tag")} />
    <${Text} label=${t("Keys")} value=${form.keys} onInput=${set("keys")} hint=${t("Separated by blanks.")} />
    <${Text} label=${t("Order key")} value=${form.orderKey} onInput=${set("orderKey")} hint=${t("Messages with one key go to one queue.")} />
    <${Choice} label=${t("Delay")} value=${form.delay} onInput=${set("delay")} options=${[["0", t("none")], ...DELAYS.map((text, index) => [String(index + 1), text]), ["at", t("until a time")]]} />
    ${form.delay === "at" && html`<${Text} label=${t("Deliver at")} type="datetime-local" step="1" required value=${form.at} onInput=${set("at")} />`}
    <${Pairs} label=${t("Properties")} value=${form.properties} onInput=${set("properties")} />
    <div class="wide"><${Problem} error=${error} />
      ${sent && html`<div class="done" role="status"><strong>${sent.status}</strong> ${t("queue {queue} of {broker}, offset {offset}", { queue: sent.queueId, broker: sent.broker, offset: sent.queueOffset })}<div class="quiet mono">${sent.messageId}</div></div>`}
      <button type="submit" class="primary" disabled=${busy}>${busy ? t("Working…") : t("Publish")}</button></div>
  </form>`;
}
