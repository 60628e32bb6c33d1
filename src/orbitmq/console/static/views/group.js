import { html, useEffect, useState } from "/static/html.js";
import { get, inCluster, may, part, post, put, remove } from "/static/api.js";
import { useLive } from "/static/live.js";
import { ago, number, rate, time } from "/static/format.js";
import { address, go, place } from "/static/router.js";
import { phrase, t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Choice, Text } from "/static/ui/fields.js";
import { Dialog } from "/static/ui/dialog.js";
import { Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";
import { Tabs } from "/static/ui/tabs.js";
import { fromSettings, GroupFields, toSettings } from "/static/views/group_settings.js";

export function GroupView({ cluster, name }) {
  const path = inCluster(cluster, `/groups/${part(name)}`);
  const { value, error, loading, reload } = useLive(path, 5);
  const [resetting, setResetting] = useState("");
  const [cloning, setCloning] = useState(false);
  const [dialog, setDialog] = useState(null);
  const tab = place.value.query.get("tab") ?? "queues";
  const tabs = [["queues", t("Queues")], ["members", t("Members")], ["why", t("Why is it behind?")]];
  return html`
    <nav class="crumbs" aria-label=${t("Path")}><a href=${address(cluster, "groups")}>${t("Groups")}</a> / </nav>
    <div class="head-row"><h1 class="mono">${name}</h1><div class="actions">${value && may("admin") && html`<button type="button" onClick=${() => setDialog({ kind: "settings" })}>${t("Settings")}</button><button type="button" class="danger-text" onClick=${() => setDialog({ kind: "delete" })}>${t("Delete")}</button>`}${value?.queues.length > 0 && may("operator") && html`${may("admin") && html`<button type="button" onClick=${() => setCloning(true)}>${t("Clone")}</button>`}<button type="button" onClick=${() => setResetting("latest")}>${t("Skip backlog")}</button><button type="button" onClick=${() => setResetting("time")}>${t("Reset offsets")}</button>`}</div></div>
    <${Problem} error=${error} retry=${reload} />
    ${loading && html`<${Loading} />`}
    ${value && html`
      <dl class="facts">
        <div><dt>${t("Lag")}</dt><dd>${number(value.lag)}</dd></div><div><dt>${t("In flight")}</dt><dd>${number(value.inFlight)}</dd></div>
        <div><dt>${t("Out/s")}</dt><dd>${rate(value.tps)}</dd></div><div><dt>${t("Members")}</dt><dd class=${value.members.length || !value.lag ? "" : "bad-text"}>${number(value.members.length)}</dd></div>
      </dl>
      ${value.filters.length > 0 && html`<div class="problem" role="alert"><strong>${t("Members read by different filters: what a filter passes over is lost to the group.")}</strong>
        <ul>${value.filters.map((one) => html`<li key=${`${one.topic} ${one.filter}`}><span class="mono">${one.topic}</span>: <code>${one.filter}</code> ${one.members.join(", ")}</li>`)}</ul></div>`}
      <${Tabs} label=${t("Parts of the group")} tabs=${tabs} current=${tab} />
      ${tab !== "why" && html`<div class="tools"><${Download} path=${`${path}?max=100000`} rows=${tab} /></div>`}
      <section class="card">
        ${tab === "queues" && html`<${Queues} group=${value} onSet=${may("operator") && ((queue) => setDialog({ kind: "offset", queue }))} />`}
        ${tab === "members" && html`<${Members} group=${value} />`}
        ${tab === "why" && html`<${Why} path=${`${path}/why`} />`}
      </section>
      ${resetting && html`<${Reset} path=${path} name=${name} first=${resetting} topics=${[...new Set(value.queues.map((one) => one.topic))]} onClose=${() => setResetting("")} onDone=${() => { setResetting(""); reload(); }} />`}
      ${dialog?.kind === "settings" && html`<${Settings} path=${path} name=${name} onClose=${() => setDialog(null)} />`}
      ${dialog?.kind === "delete" && html`<${Delete} cluster=${cluster} path=${path} group=${value} onClose=${() => setDialog(null)} />`}
      ${dialog?.kind === "offset" && html`<${SetOffset} path=${path} queue=${dialog.queue} onClose=${() => setDialog(null)} onDone=${() => { setDialog(null); reload(); }} />`}
      ${cloning && html`<${Clone} cluster=${cluster} path=${path} name=${name} onClose=${() => setCloning(false)} />`}`}`;
}

function Settings({ path, name, onClose }) {
  const { value, error } = useLive(`${path}/settings`, 0);
  const [form, setForm] = useState(null);
  useEffect(() => { if (value) setForm(toSettings(value)); }, [value]);
  async function change() {
    await put(`${path}/settings`, fromSettings(form));
    say(t("Group {name} is changed", { name }));
    onClose();
  }
  return html`<${Dialog} title=${t("Settings of {name}", { name })} action=${t("Change")} disabled=${!form} onSubmit=${change} onClose=${onClose}>
    <${Problem} error=${error} />${form ? html`<${GroupFields} form=${form} onInput=${setForm} />` : !error && html`<${Loading} />`}<//>`;
}

function Delete({ cluster, path, group, onClose }) {
  const [typed, setTyped] = useState("");
  async function erase() {
    await remove(path, { confirm: typed });
    say(t("Group {name} is deleted", { name: group.group }));
    go(address(cluster, "groups"));
  }
  return html`<${Dialog} title=${t("Delete {name}", { name: group.group })} action=${t("Delete for good")} danger disabled=${typed !== group.group} onSubmit=${erase} onClose=${onClose}>
    <p>${t("This deletes the group's offsets of {queues} queues, its retries and its dead letters. It cannot be undone.", { queues: number(group.queueCount) })}</p>
    ${group.members.length > 0 && html`<p class="bad-text">${t("{count} members are online: stop them first, or they make the group anew.", { count: number(group.members.length) })}</p>`}
    <${Text} label=${t("Type the name of the group to confirm")} value=${typed} onInput=${setTyped} wide /><//>`;
}

function SetOffset({ path, queue, onClose, onDone }) {
  const [text, setText] = useState(String(queue.consumerOffset));
  const offset = Number(text);
  const moved = offset - queue.consumerOffset;
  async function set() {
    const { topic, broker, queueId } = queue;
    await put(`${path}/offset`, { topic, broker, queueId, offset });
    say(t("The offset is set"));
    onDone();
  }
  return html`<${Dialog} title=${t("Offset of queue {queue}, {broker}", { queue: queue.queueId, broker: queue.broker })} action=${t("Set")} danger=${moved > 0} disabled=${!moved} onSubmit=${set} onClose=${onClose}>
    <${Text} label=${t("Consumer offset")} type="number" min="0" max=${queue.brokerOffset} required value=${text} onInput=${setText} />
    <div class="done" role="status"><strong>${moved ? t("{again} messages are delivered again, {skipped} are skipped.", { again: number(Math.max(0, -moved)), skipped: number(Math.max(0, moved)) }) : t("Nothing changes.")}</strong></div><//>`;
}

function Queues({ group, onSet }) {
  const most = Math.max(1, ...group.queues.map((one) => one.lag));
  const columns = [
    { key: "topic", title: t("Topic"), cell: (one) => html`<span class="mono">${one.topic}</span>` },
    { key: "queue", title: t("Queue"), cell: (one) => html`<span class="place">${one.queueId} <span class="quiet">${one.broker}</span></span>` },
    { key: "offset", title: t("Consumer offset"), align: "number", hide: "narrow", cell: (one) => number(one.consumerOffset) },
    { key: "end", title: t("Broker offset"), align: "number", hide: "narrow", cell: (one) => number(one.brokerOffset) },
    { key: "lag", title: t("Lag"), align: "number", cell: (one) => number(one.lag) },
    { key: "share", title: t("Share"), hide: "narrow", cell: (one) => html`<span class="bar"><progress max=${most} value=${one.lag} aria-label=${t("Share")}></progress></span>` },
    { key: "oldest", title: t("Oldest waits"), align: "number", cell: (one) => html`<span title=${time(one.oldestMs)}>${one.oldestMs > 0 ? ago(one.oldestMs) : "–"}</span>` },
    { key: "age", title: t("Read up to"), align: "number", hide: "narrow", cell: (one) => html`<span title=${time(one.lastMs)}>${one.lastMs > 0 ? t("{age} ago", { age: ago(one.lastMs) }) : "–"}</span>` },
    { key: "handler", title: t("Handler, ms"), align: "number", hide: "narrow", cell: (one) => rate(one.handlerMs) },
    { key: "error", title: t("Last error"), hide: "narrow", cell: (one) => (one.lastError ? html`<${LastError} of=${one.lastError} />` : "–") },
    { key: "owner", title: t("Member"), hide: "narrow", cell: (one) => html`<span class="mono">${one.owner ?? "–"}</span>` },
    ...(onSet ? [{ key: "set", title: t("Set offset"), cell: (one) => html`<button type="button" aria-label=${t("Set the offset of queue {queue}, {broker}", { queue: one.queueId, broker: one.broker })} onClick=${() => onSet(one)}>${t("Set")}</button>` }] : []),
  ];
  return html`${group.queues.length < group.queueCount && html`<p class="note quiet">${t("The {shown} queues with the largest lag, of {count}.", { shown: number(group.queues.length), count: number(group.queueCount) })}</p>`}<${Table} label=${t("Queues")} rows=${group.queues} rowKey=${(one) => `${one.topic} ${one.broker} ${one.queueId}`} columns=${columns} empty=${html`<${Empty} title=${t("No offsets yet")}>${t("The group has consumed nothing so far.")}<//>`} />`;
}

function LastError({ of }) {
  const what = of.exception ? `${of.exception}${of.text ? `: ${of.text}` : ""}` : t("not told by its client");
  const when = of.deadLetter ? t("dead letter {age} ago", { age: ago(of.atMs) }) : t("comes again, {age} ago", { age: ago(of.atMs) });
  return html`<span class="last-error" title=${`${what} · ${time(of.atMs)}`}>${what.length > 60 ? `${what.slice(0, 59)}…` : what}</span><div class="quiet">${when} · ${t("tries: {count}", { count: number(of.attempts) })}</div>`;
}

function Members({ group }) {
  const columns = [
    { key: "client", title: t("Client"), cell: (one) => html`<span class="mono">${one.clientId}</span><div class="quiet">${one.address}</div>` },
    { key: "version", title: t("Version"), hide: "narrow", cell: (one) => `${one.language} ${one.version}` },
    { key: "subscriptions", title: t("Subscriptions"), cell: (one) => Object.entries(one.subscriptions).map(([topic, text]) => html`<div key=${topic}><span class="mono">${topic}</span> <code>${text}</code></div>`) },
    { key: "queues", title: t("Queues"), align: "number", cell: (one) => (one.answered ? number(one.queues) : "–") },
    { key: "cached", title: t("Held"), align: "number", hide: "narrow", cell: (one) => (one.answered ? number(one.cached) : "–") },
    { key: "handler", title: t("Handler, ms"), align: "number", hide: "narrow", cell: (one) => (one.answered ? rate(one.handlerMs) : "–") },
    { key: "ok", title: t("Done/s"), align: "number", hide: "narrow", cell: (one) => (one.answered ? rate(one.okTps) : "–") },
    { key: "failed", title: t("Failed/s"), align: "number", hide: "narrow", cell: (one) => (one.answered ? html`<span class=${one.failedTps ? "bad-text" : ""}>${rate(one.failedTps)}</span>` : "–") },
  ];
  return html`<${Table} label=${t("Members")} rows=${group.members} rowKey=${(one) => one.clientId} columns=${columns} empty=${html`<${Empty} title=${t("No member is online")}>${t("Start a consumer of this group.")}<//>`} />`;
}

function Why({ path }) {
  const { value, error, loading, reload } = useLive(path, 0);
  return html`<div class="pad">
    ${loading && html`<${Loading} />`}<${Problem} error=${error} retry=${reload} />
    ${value && html`<ol class="causes">${value.words.map((one, index) => html`<li key=${value.causes[index].cause} class=${index ? "" : "first"}>
      <strong>${phrase(one.sentence)}</strong> <span class="tag">${value.causes[index].cause}</span>
      ${one.evidence.length > 0 && html`<ul>${one.evidence.map(phrase).map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}
      <div class="quiet">${phrase(one.advice)}</div>
    </li>`)}</ol><button type="button" onClick=${reload}>${t("Look again")}</button>`}
  </div>`;
}

function Clone({ cluster, path, name, onClose }) {
  const [copy, setCopy] = useState("");
  async function clone() {
    const made = await post(`${path}/clone`, { name: copy.trim() });
    say(t("Group {name} is made", { name: made.group }));
    go(address(cluster, "groups", made.group));
  }
  return html`<${Dialog} title=${t("Clone {name}", { name })} action=${t("Clone")} onSubmit=${clone} onClose=${onClose}>
    <p>${t("The new group has the same settings and goes on where this one is now.")}</p>
    <div class="fields"><${Text} label=${t("Name of the new group")} required value=${copy} onInput=${setCopy} /></div>
  <//>`;
}

function Reset({ path, name, first, topics, onClose, onDone }) {
  const own = topics.find((one) => !one.startsWith("%")) ?? topics[0];
  const [topic, setTopic] = useState(own);
  const [kind, setKind] = useState(first);
  const [moment, setMoment] = useState(() => local(Date.now() - 3600000));
  const [effect, setEffect] = useState(null);
  const [error, setError] = useState(null);
  const to = kind === "time" ? new Date(moment).getTime() : kind;
  useEffect(() => {
    let current = true;
    setEffect(null);
    setError(null);
    if (kind === "time" && !Number.isFinite(to)) return undefined;
    get(`${path}/reset-preview?topic=${part(topic)}&to=${to}`).then((found) => current && setEffect(found), (failure) => current && setError(failure));
    return () => { current = false; };
  }, [topic, to]);
  async function reset() {
    await post(`${path}/reset`, { topic, to });
    say(t("Offsets of {name} are set", { name }));
    onDone();
  }
  return html`<${Dialog} title=${t("Reset offsets of {name}", { name })} action=${t("Reset")} danger=${effect?.skipped > 0} disabled=${!effect} onSubmit=${reset} onClose=${onClose}>
    <div class="fields">
      <${Choice} label=${t("Topic")} value=${topic} onInput=${setTopic} options=${topics.map((one) => [one, one])} />
      <${Choice} label=${t("Go on")} value=${kind} onInput=${setKind} options=${[["time", t("at a time")], ["earliest", t("at the oldest message")], ["latest", t("after the newest message (skip)")]]} />
      ${kind === "time" && html`<${Text} label=${t("Stored at or after")} type="datetime-local" step="1" required value=${moment} onInput=${setMoment} />`}
    </div>
    <${Problem} error=${error} />
    ${effect ? html`<div class="done" role="status"><strong>${effect.again || effect.skipped ? t("{again} messages are delivered again, {skipped} are skipped.", { again: number(effect.again), skipped: number(effect.skipped) }) : t("Nothing changes.")}</strong></div>` : !error && html`<${Loading} />`}
  <//>`;
}

const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19);
