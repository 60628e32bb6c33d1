// Servers of a cluster: name servers, options of brokers with their differences, elections, maintenance.
import { html, useMemo, useState } from "/static/html.js";
import { inCluster, may, part, post, put } from "/static/api.js";
import { useLive } from "/static/live.js";
import { ago, bytes, number, rate, span, time } from "/static/format.js";
import { filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Check, Choice, Filter, Text } from "/static/ui/fields.js";
import { Dialog } from "/static/ui/dialog.js";
import { complain, Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { count, Table } from "/static/ui/table.js";
import { Tabs } from "/static/ui/tabs.js";

export function Servers({ cluster }) {
  const tab = place.value.query.get("tab") ?? "servers";
  const tabs = [["servers", t("Servers")], ["options", t("Options")], ["producers", t("Producers")], ["elections", t("Elections")]];
  const state = useLive(tab === "options" || tab === "producers" ? null : inCluster(cluster, "/servers"), 10);
  return html`<h1>${t("Cluster")}</h1>
    <${Tabs} label=${t("Parts of the cluster")} tabs=${tabs} current=${tab} />
    <${Problem} error=${state.error} retry=${state.reload} />${state.loading && html`<${Loading} />`}
    ${tab === "options" ? html`<${Options} cluster=${cluster} />` : tab === "producers" ? html`<${Producers} cluster=${cluster} />` : state.value && (tab === "elections" ? html`<${Elections} state=${state.value} />` : html`<${ServerList} cluster=${cluster} state=${state.value} reload=${state.reload} />`)}`;
}

function ServerList({ cluster, state, reload }) {
  const [draining, setDraining] = useState(null);
  const [shown, setShown] = useState(null);
  const drained = new Set(state.nameServers.flatMap((one) => one.drained));
  async function back(name) {
    try {
      const changed = await post(inCluster(cluster, `/brokers/${part(name)}/undrain`));
      say(t("{name} takes messages again: {topics} topics", { name, topics: changed.topics }));
    } catch (failure) {
      complain(failure);
    }
    reload();
  }
  const names = [
    { key: "address", title: t("Address"), cell: (one) => html`<code>${one.address}</code>` },
    { key: "state", title: t("State"), cell: (one) => html`<span class=${`state ${one.error ? "down" : "active"}`}>${one.error ? t("down") : t("active")}</span>${one.error && html`<div class="quiet">${one.error}</div>`}` },
    { key: "brokers", title: t("Brokers"), align: "number", cell: (one) => number(one.brokers) },
    { key: "drained", title: t("Drained"), cell: (one) => one.drained.join(", ") || "–" },
  ];
  const brokers = [
    { key: "name", title: t("Broker"), cell: (one) => html`<strong>${one.name}</strong> <span class="quiet">${one.cluster}</span>` },
    { key: "role", title: t("Role"), cell: (one) => (one.brokerId === 0 ? t("master") : t("slave {id}", { id: one.brokerId })) },
    { key: "state", title: t("State"), cell: (one) => html`<span class=${`state ${one.state}`} title=${one.error ?? ""}>${t(one.state)}</span>${drained.has(one.name) && html` <span class="tag">${t("drained")}</span>`}` },
    { key: "address", title: t("Address"), hide: "narrow", cell: (one) => html`<code>${one.address}</code>` },
    { key: "version", title: t("Version"), hide: "narrow", cell: (one) => one.version ?? "–" },
    { key: "in", title: t("In/s"), align: "number", cell: (one) => rate(one.inTps) },
    { key: "out", title: t("Out/s"), align: "number", hide: "narrow", cell: (one) => rate(one.outTps) },
    { key: "figures", title: t("Figures"), cell: (one) => html`<button type="button" aria-label=${t("Figures of {name}", { name: `${one.name} ${one.address}` })} onClick=${() => setShown(one)}>${t("Show")}</button>` },
    ...(may("admin") ? [{ key: "act", title: t("Maintenance"), cell: (one) => one.brokerId === 0 && (drained.has(one.name)
      ? html`<button type="button" aria-label=${`${t("Put back")} ${one.name}`} onClick=${() => back(one.name)}>${t("Put back")}</button>`
      : html`<button type="button" aria-label=${`${t("Drain")} ${one.name}`} onClick=${() => setDraining(one)}>${t("Drain")}</button>`) }] : []),
  ];
  return html`
    <section class="card"><h2>${t("Name servers")}</h2><${Table} label=${t("Name servers")} rows=${state.nameServers} rowKey=${(one) => one.address} columns=${names} rowClass=${(one) => (one.error ? "gone" : "")} /></section>
    <section class="card"><h2>${t("Brokers")}</h2><${Table} label=${t("Brokers")} rows=${state.brokers} rowKey=${(one) => one.address} columns=${brokers} rowClass=${(one) => (one.state === "down" || one.state === "refusing" ? "gone" : "")} empty=${html`<${Empty} title=${t("No broker is registered")}><//>`} /></section>
    ${shown && html`<${Figures} cluster=${cluster} broker=${shown} onClose=${() => setShown(null)} />`}
    ${draining && html`<${Drain} cluster=${cluster} name=${draining.name} onClose=${() => setDraining(null)} onDone=${() => { setDraining(null); reload(); }} />`}`;
}

// Everything that a broker tells of itself, under its own names.
function Figures({ cluster, broker, onClose }) {
  const path = inCluster(cluster, `/brokers/${part(broker.address)}/status`);
  const { value, error, reload } = useLive(path, 5);
  const [text, setText] = useState("");
  const rows = (value?.figures ?? []).filter((one) => one.name.toLowerCase().includes(text.toLowerCase()));
  return html`<${Dialog} title=${t("Figures of {name}", { name: broker.name })} action=${t("Close")} onSubmit=${onClose} onClose=${onClose}>
    <div class="tools"><${Filter} label=${t("Filter by name")} value=${text} onInput=${setText} /><${Download} path=${path} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${value ? html`<dl class="list">${rows.map((one) => html`<div key=${one.name}><dt class="mono">${one.name}</dt><dd class="mono">${one.value}</dd></div>`)}</dl>` : !error && html`<${Loading} />`}<//>`;
}

function Producers({ cluster }) {
  const path = inCluster(cluster, "/producers");
  const { value, error, loading, reload } = useLive(path, 10);
  const text = place.value.query.get("filter") ?? "";
  const wanted = text.toLowerCase();
  const rows = (value?.producers ?? []).filter((one) => `${one.group} ${one.clientId} ${one.address}`.toLowerCase().includes(wanted));
  const columns = [
    { key: "group", title: t("Group"), cell: (one) => html`<span class="mono">${one.group}</span>` },
    { key: "client", title: t("Client"), cell: (one) => html`<span class="mono">${one.clientId}</span>` },
    { key: "address", title: t("Address"), cell: (one) => html`<code>${one.address}</code>` },
    { key: "version", title: t("Version"), hide: "narrow", cell: (one) => `${one.language} ${one.version}` },
    { key: "brokers", title: t("Brokers"), hide: "narrow", cell: (one) => one.brokers.join(", ") },
    { key: "last", title: t("Last heartbeat"), cell: (one) => html`<span title=${time(one.lastMs)}>${one.lastMs > 0 ? t("{age} ago", { age: ago(one.lastMs) }) : "–"}</span>` },
  ];
  return html`<div class="tools"><${Filter} label=${t("Filter by group, client or address")} value=${text} onInput=${(changed) => filter({ filter: changed })} />${value && html`<span class="quiet" role="status">${count(rows.length, value.producers.length)}</span>`}<${Download} path=${path} filter=${text} /></div>
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value?.errors.map((one) => html`<div class="problem" role="alert" key=${one}>${one}</div>`)}
    ${value?.leftOut > 0 && html`<p class="quiet">${t("{count} more are left out.", { count: number(value.leftOut) })}</p>`}
    ${value && html`<section class="card"><${Table} label=${t("Producers")} rows=${rows} rowKey=${(one) => `${one.group} ${one.clientId}`} columns=${columns} empty=${html`<${Empty} title=${t("No producer is connected")}>${t("A producer shows itself within half a minute of its first message.")}<//>`} /></section>`}`;
}

function Drain({ cluster, name, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  async function drain() {
    const changed = await post(inCluster(cluster, `/brokers/${part(name)}/drain`), { confirm: typed });
    say(t("{name} is drained: {topics} topics", { name, topics: changed.topics }));
    onDone();
  }
  return html`<${Dialog} title=${t("Drain {name}", { name })} action=${t("Drain")} danger disabled=${typed !== name} onSubmit=${drain} onClose=${onClose}>
    <p>${t("Name servers no longer give its queues to producers; consumers read on. Within half a minute nothing comes in any more.")}</p>
    <p>${t("It lasts until you put the broker back, it starts again, or one of its topics changes.")}</p>
    <${Text} label=${t("Type the name of the broker to confirm")} value=${typed} onInput=${setTyped} wide /><//>`;
}

function Options({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/config"), 0);
  const query = place.value.query;
  const text = query.get("filter") ?? "";
  const only = query.get("only") === "different";
  const [editing, setEditing] = useState(null);
  const rows = useMemo(() => (value?.options ?? []).filter((one) => (!only || one.differs) && `${one.name} ${one.doc}`.toLowerCase().includes(text.toLowerCase())), [value, text, only]);
  const columns = [
    { key: "name", title: t("Option"), cell: (one) => html`<code title=${one.doc}>${one.name}</code>${one.differs && html` <span class="tag bad-text">${t("differs")}</span>`}${one.doc && html`<div class="quiet doc">${one.doc}</div>`}` },
    ...(value?.brokers ?? []).map((broker, index) => ({ key: broker.address, label: broker.name, title: html`${broker.name} <span class="quiet">${broker.address}</span>`, cell: (one) => html`<span class="mono" title=${one.values[index] ?? ""}>${one.values[index] ?? "–"}</span>` })),
    { key: "default", title: t("Default"), hide: "narrow", cell: (one) => html`<span class="mono quiet">${one.default ?? "–"}${one.unit && ` ${one.unit}`}</span>` },
    ...(may("admin") ? [{ key: "set", title: t("Set"), cell: (one) => !one.secret && one.mutable !== false && html`<button type="button" aria-label=${`${t("Set")} ${one.name}`} onClick=${() => setEditing(one)}>${t("Set")}</button>` }] : []),
  ];
  return html`
    <div class="tools"><${Filter} label=${t("Filter by name or meaning")} value=${text} onInput=${(changed) => filter({ filter: changed })} /><${Check} label=${t("Only differences between brokers")} value=${only} onInput=${(on) => filter({ only: on ? "different" : "" })} />${value && html`<span class="quiet" role="status">${count(rows.length, value.options.length)}</span>`}<${Download} path=${inCluster(cluster, "/config")} /></div>
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value?.errors.map((one) => html`<div class="problem" role="alert" key=${one}>${one}</div>`)}
    ${value && html`<section class="card options"><${Table} label=${t("Options")} rows=${rows} rowKey=${(one) => one.name} columns=${columns} empty=${html`<${Empty} title=${only ? t("All brokers agree") : t("No option here")}><//>`} /></section>`}
    ${editing && html`<${SetOption} cluster=${cluster} option=${editing} brokers=${value.brokers} onClose=${() => setEditing(null)} onDone=${() => { setEditing(null); reload(); }} />`}`;
}

function SetOption({ cluster, option, brokers, onClose, onDone }) {
  const [text, setText] = useState(option.values.find((one) => one != null) ?? "");
  const [broker, setBroker] = useState("");
  async function set() {
    await put(inCluster(cluster, "/config"), { name: option.name, value: text, broker: broker || null });
    say(t("{name} is set", { name: option.name }));
    onDone();
  }
  return html`<${Dialog} title=${t("Set {name}", { name: option.name })} action=${t("Set")} onSubmit=${set} onClose=${onClose}>
    ${option.doc && html`<p>${option.doc}</p>`}
    ${option.mutable === null && html`<p class="quiet">${t("The console does not know this option: the broker may take it only at its start.")}</p>`}
    <div class="fields">${option.choices.length ? html`<${Choice} label=${t("Value")} value=${text} onInput=${setText} options=${option.choices.map((one) => [one, one])} />` : html`<${Text} label=${t("Value")} value=${text} onInput=${setText} hint=${option.unit} />`}
      <${Choice} label=${t("Broker")} value=${broker} onInput=${setBroker} options=${[["", t("all brokers")], ...brokers.map((one) => [one.address, `${one.name} ${one.address}`])]} /></div><//>`;
}

function Elections({ state }) {
  const columns = [
    { key: "at", title: t("When"), cell: (one) => time(one.atMs) },
    { key: "broker", title: t("Broker"), cell: (one) => one.broker },
    { key: "master", title: t("New master"), cell: (one) => (one.master == null ? html`<span class="bad-text">${t("none")}</span>` : html`${one.master} <code>${one.address}</code>`) },
    { key: "epoch", title: t("Epoch"), align: "number", hide: "narrow", cell: (one) => number(one.epoch) },
    { key: "reason", title: t("Reason"), cell: (one) => one.reason },
    { key: "without", title: t("Without master"), align: "number", cell: (one) => span(one.withoutMasterMs) },
    { key: "lost", title: t("Lost"), align: "number", hide: "narrow", cell: (one) => (one.lostBytes == null ? "–" : html`<span class="bad-text">${bytes(one.lostBytes)}</span>`) },
  ];
  const controllers = [
    { key: "address", title: t("Address"), cell: (one) => html`<code>${one.address}</code>` },
    { key: "state", title: t("State"), cell: (one) => html`<span class=${`state ${one.error ? "down" : "active"}`}>${one.error ? t("down") : one.leads ? t("leads") : t("follows")}</span>` },
  ];
  return html`${state.errors.map((one) => html`<div class="problem" role="alert" key=${one}>${one}</div>`)}
    <section class="card"><h2>${t("Controllers")}</h2><${Table} label=${t("Controllers")} rows=${state.controllers} rowKey=${(one) => one.address} columns=${controllers} empty=${html`<${Empty} title=${t("No broker of this cluster has a controller")}>${t("Masters are then what their settings say.")}<//>`} /></section>
    <section class="card"><h2>${t("Elections")}</h2><${Table} label=${t("Elections")} rows=${state.elections} rowKey=${(one) => `${one.broker} ${one.epoch} ${one.atMs}`} columns=${columns} empty=${html`<${Empty} title=${t("No election is known")}>${t("Apache's controllers keep none.")}<//>`} /></section>`;
}
