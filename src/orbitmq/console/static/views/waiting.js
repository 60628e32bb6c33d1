// Messages that wait: a calendar of what is due, delay levels, timers that can be taken back, half messages.
import { html, useState } from "/static/html.js";
import { inCluster, may, post } from "/static/api.js";
import { useLive, useTask } from "/static/live.js";
import { ago, bytes, number, span, time } from "/static/format.js";
import { address, filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Text } from "/static/ui/fields.js";
import { Calendar } from "/static/ui/calendar.js";
import { Dialog } from "/static/ui/dialog.js";
import { complain, Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";
import { Tabs } from "/static/ui/tabs.js";
import { Body } from "/static/views/messages.js";
import { Scheduled } from "/static/views/scheduled.js";

const HOUR = 3600000;

export function Waiting({ cluster }) {
  const tab = place.value.query.get("tab") ?? "delays";
  const tabs = [["delays", t("Delays")], ["scheduled", t("Delay service")], ["transactions", t("Transactions")]];
  const Kind = { transactions: Transactions, scheduled: Scheduled }[tab] ?? Delays;
  return html`<h1>${t("Waiting")}</h1>
    <${Tabs} label=${t("Kinds of waiting messages")} tabs=${tabs} current=${tab} />
    <${Kind} cluster=${cluster} />`;
}

function Delays({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/delays"), 15);
  const query = place.value.query;
  const topic = query.get("topic") ?? "";
  const hour = Number(query.get("hour") ?? 0);
  const asked = new URLSearchParams({ ...(topic && { topic }), ...(hour && { fromMs: hour, toMs: hour + HOUR }) });
  const scan = useTask(inCluster(cluster, `/timers?${asked}`));
  const [recalling, setRecalling] = useState(null);
  const slots = [...(topic ? [] : value?.levelSlots ?? []), ...(scan.value?.slots ?? [])];
  const waiting = (value?.levels ?? []).reduce((sum, one) => sum + one.pending, 0);
  return html`
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value?.errors.length > 0 && html`<div class="problem" role="alert"><strong>${t("Not everything could be found out")}</strong>${value.errors.map((one) => html`<div key=${one}>${one}</div>`)}</div>`}
    ${value && html`<dl class="facts">
        <div><dt>${t("By level")}</dt><dd>${number(waiting)}</dd></div>
        <div><dt>${t("Timers")}</dt><dd>${number(value.topics.reduce((sum, one) => sum + one.pending, 0))}</dd></div>
        ${value.timerBehindSeconds != null && html`<div><dt>${t("Timers behind")}</dt><dd>${span(1000 * value.timerBehindSeconds)}</dd></div>`}
        ${value.withoutTimers.length > 0 && html`<div><dt>${t("Without timers")}</dt><dd>${value.withoutTimers.join(", ")}</dd></div>`}
      </dl>
      <section class="card"><h2>${t("Due")}</h2><div class="pad"><${Calendar} slots=${slots} chosen=${hour} onChoose=${(at) => filter({ hour: at === hour ? "" : at })} /></div></section>
      <section class="card"><div class="head-row titled"><h2>${t("Delay levels")}</h2><${Download} path=${inCluster(cluster, "/delays")} /></div><${Table} label=${t("Delay levels")} rows=${value.levels} rowKey=${(one) => one.level} columns=${levelColumns()} empty=${html`<${Empty} title=${t("No message waits on a delay level")}><//>`} />
        ${value.levels.length > 0 && html`<div class="pad quiet">${t("Brokers can recall timers only: a message of a delay level is delivered in any case.")}</div>`}</section>`}
    <section class="card"><div class="head-row titled"><h2>${t("Timers")}</h2><${Download} path=${inCluster(cluster, `/timers?${asked}`)} /></div><div class="pad tools">
        <${Text} label=${t("Topic")} value=${topic} onInput=${(text) => filter({ topic: text.trim() })} list="timer-topics" />
        <datalist id="timer-topics">${(value?.topics ?? []).map((one) => html`<option key=${one.topic} value=${one.topic}></option>`)}</datalist>
        ${hour > 0 && html`<button type="button" onClick=${() => filter({ hour: "" })}>${t("Due {from} to {to}: show all", { from: time(hour), to: time(hour + HOUR) })}</button>`}
        <span class="quiet" role="status">${scan.running && html`<progress max=${scan.value?.total || 1} value=${scan.value?.scanned ?? 0} aria-label=${t("Progress")}></progress> `}${scan.value && t("{pending} pending in {scanned} of {total} records.", { pending: number(scan.value.pending), scanned: number(scan.value.scanned), total: number(scan.value.total) })}</span>
        ${scan.running ? html`<button type="button" onClick=${scan.stop}>${t("Stop reading")}</button>` : html`<button type="button" onClick=${scan.restart}>${t("Read again")}</button>`}</div>
      <${Problem} error=${scan.error} retry=${scan.restart} />
      ${scan.value?.errors.map((one) => html`<div class="problem" role="alert" key=${one}>${one}</div>`)}
      ${scan.value?.done && !scan.value.complete && html`<p class="pad quiet">${t("Not all records were read: timers may be missing.")}</p>`}
      ${scan.value?.done && html`<${Table} label=${t("Timers")} rows=${scan.value.timers} rowKey=${(one) => `${one.broker} ${one.queueOffset}`} columns=${timerColumns(cluster, value?.mayRecall ?? false, setRecalling)} empty=${html`<${Empty} title=${t("No timer is pending")}><//>`} />`}
    </section>
    ${recalling && html`<${Recall} cluster=${cluster} timer=${recalling} onClose=${() => setRecalling(null)} onDone=${() => { setRecalling(null); scan.restart(); reload(); }} />`}`;
}

const levelColumns = () => [
  { key: "level", title: t("Level"), cell: (one) => one.level },
  { key: "delay", title: t("Delay"), cell: (one) => span(one.delayMs) },
  { key: "pending", title: t("Pending"), align: "number", cell: (one) => number(one.pending) },
  { key: "next", title: t("Next due"), cell: (one) => html`${time(one.nextDueMs)}${one.nextDueMs && html` <span class="quiet">${one.nextDueMs > Date.now() ? t("in {time}", { time: span(one.nextDueMs - Date.now()) }) : t("now")}</span>`}` },
  { key: "brokers", title: t("Brokers"), hide: "narrow", cell: (one) => Object.entries(one.brokers).map(([name, pending]) => `${name}: ${number(pending)}`).join(" · ") },
];

const timerColumns = (cluster, mayRecall, onRecall) => [
  { key: "due", title: t("Due"), cell: (one) => html`${time(one.dueMs)} <span class="quiet">${t("in {time}", { time: span(Math.max(0, one.dueMs - Date.now())) })}</span>` },
  { key: "topic", title: t("Topic"), cell: (one) => html`<span class="mono">${one.topic}</span>${one.tags && html` <span class="tag">${one.tags}</span>`}` },
  { key: "keys", title: t("Keys"), hide: "narrow", cell: (one) => one.keys.map((key) => html`<span class="tag mono" key=${key}>${key}</span>`) },
  { key: "place", title: t("Message"), hide: "narrow", cell: (one) => html`<a class="mono" href=${address(cluster, "messages", "", { by: "place", topic: "rmq_sys_wheel_timer", broker: one.broker, queueId: "0", offset: one.queueOffset })}>${one.uniqueId || `${one.broker} ${one.queueOffset}`}</a>` },
  { key: "stored", title: t("Stored"), hide: "narrow", cell: (one) => time(one.storedMs) },
  { key: "size", title: t("Size"), align: "number", hide: "narrow", cell: (one) => bytes(one.bodySize) },
  ...(may("operator") ? [{ key: "recall", title: t("Recall"), cell: (one) => html`<button type="button" disabled=${!one.isRecallable || !mayRecall} title=${mayRecall ? "" : t("The broker has recallMessageEnable=false.")} onClick=${() => onRecall(one)}>${t("Recall")}</button>` }] : []),
];

function Recall({ cluster, timer, onClose, onDone }) {
  async function recall() {
    await post(inCluster(cluster, "/timers/recall"), { broker: timer.broker, topic: timer.topic, dueMs: timer.dueMs, uniqueId: timer.uniqueId });
    say(t("{id} is recalled", { id: timer.uniqueId }));
    onDone();
  }
  return html`<${Dialog} title=${t("Recall {id}", { id: timer.uniqueId })} action=${t("Recall for good")} danger onSubmit=${recall} onClose=${onClose}>
    <p>${t("The message of topic {topic} that is due {time} is never delivered.", { topic: timer.topic, time: time(timer.dueMs) })}</p><//>`;
}

function Transactions({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/transactions"), 10);
  const [shown, setShown] = useState(null);
  async function check(one) {
    try {
      await post(inCluster(cluster, "/transactions/check"), { broker: one.broker, messageId: one.message.id });
      say(t("The producers are asked again"));
    } catch (failure) {
      complain(failure);
    }
    reload();
  }
  const columns = (title) => [
    { key: "topic", title: t("Topic"), cell: (one) => html`<span class="mono">${one.topic}</span>` },
    { key: "group", title: t("Producer group"), cell: (one) => html`<span class="mono">${one.group}</span>` },
    { key: "age", title: t("Age"), align: "number", cell: (one) => html`<span title=${time(one.message.bornMs)}>${ago(one.message.bornMs)}</span>` },
    { key: "checks", title: t("Checks"), align: "number", cell: (one) => number(one.checks) },
    { key: "keys", title: t("Keys"), hide: "narrow", cell: (one) => one.message.keys.map((key) => html`<span class="tag mono" key=${key}>${key}</span>`) },
    { key: "from", title: t("Sent by"), hide: "narrow", cell: (one) => html`<code>${one.message.bornHost}</code>` },
    { key: "broker", title: t("Broker"), hide: "narrow", cell: (one) => one.broker },
    { key: "act", title: t("Action"), cell: (one) => html`<div class="actions"><button type="button" aria-label=${`${t("Show")} ${one.message.id}`} onClick=${() => setShown(one)}>${t("Show")}</button>${may("operator") && html`<button type="button" aria-label=${`${title} ${one.message.id}`} onClick=${() => check(one)}>${title}</button>`}</div>` },
  ];
  return html`<${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value && html`
      ${value.errors.map((one) => html`<div class="problem" role="alert" key=${one}>${one}</div>`)}
      <dl class="facts"><div><dt>${t("Open")}</dt><dd>${number(value.openCount)}${value.complete ? "" : "+"}</dd></div><div><dt>${t("Oldest")}</dt><dd>${value.open.length ? ago(value.open[0].message.bornMs) : "–"}</dd></div><div><dt>${t("Given up")}</dt><dd>${number(value.givenUp.length)}</dd></div></dl>
      <section class="card"><div class="head-row titled"><h2>${t("Open half messages")}</h2><${Download} path=${inCluster(cluster, "/transactions")} /></div><${Table} label=${t("Open half messages")} rows=${value.open} rowKey=${(one) => one.message.id} columns=${columns(t("Check from the start"))} empty=${html`<${Empty} title=${t("Every transaction is decided")}><//>`} /></section>
      <section class="card"><h2>${t("Given up")}</h2><${Table} label=${t("Given up")} rows=${value.givenUp} rowKey=${(one) => one.message.id} columns=${columns(t("Check again"))} empty=${html`<${Empty} title=${t("No half message was given up")}>${t("Brokers stop asking after transactionCheckMax checks.")}<//>`} /></section>`}
    ${shown && html`<${Dialog} title=${shown.message.uniqueId ?? shown.message.id} action=${t("Close")} onSubmit=${() => setShown(null)} onClose=${() => setShown(null)}>
      <dl class="list">${Object.entries(shown.message.properties).map(([name, text]) => html`<div key=${name}><dt class="mono">${name}</dt><dd class="mono">${text}</dd></div>`)}</dl><${Body} message=${shown.message} /><//>`}`;
}
