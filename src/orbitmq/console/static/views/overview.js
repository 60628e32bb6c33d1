import { html, useEffect, useState } from "/static/html.js";
import { inCluster } from "/static/api.js";
import { useEvents, useLive } from "/static/live.js";
import { bytes, clock, number, percent, rate, short, span } from "/static/format.js";
import { address, filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Chart } from "/static/ui/chart.js";
import { Chips } from "/static/ui/fields.js";
import { Empty, Loading, Problem } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";

const spans = () => [["15", `15 ${t("min")}`], ["60", `1 ${t("h")}`], ["360", `6 ${t("h")}`], ["1440", `24 ${t("h")}`]];

const Tile = ({ title, value, note, state }) => html`<div class=${`tile ${state ?? ""}`}><div class="tile-title">${title}</div><div class="tile-value">${value}</div><div class="tile-note">${note}</div></div>`;

export function Overview({ cluster }) {
  const { value: loaded, error, loading, reload } = useLive(inCluster(cluster, "/overview"), 0);
  const [pushed, setPushed] = useState(null);
  useEvents(inCluster(cluster, "/overview/events"), setPushed);
  const minutes = place.value.query.get("minutes") ?? "60";
  const history = useLive(inCluster(cluster, `/history?minutes=${encodeURIComponent(minutes)}`), 0);
  const value = pushed ?? loaded;
  useEffect(() => { if (pushed) history.reload(); }, [pushed?.atMs]);
  if (!value) return html`<h1>${t("Overview")}</h1>${loading ? html`<${Loading} />` : html`<${Problem} error=${error} retry=${reload} />`}`;
  const { totals } = value;
  const seconds = 60 * (Number(minutes) || 60);
  const gone = value.brokers.filter((one) => one.state === "down" || one.state === "refusing");
  // What did not answer may have brokers and groups: only without errors there are none.
  const none = (title, text) => (value.errors.length ? html`<${Empty} title=${t("Not known")}>${t("The reason is at the top of the page.")}<//>` : html`<${Empty} title=${title}>${text}<//>`);
  const unknown = value.errors.length > 0 && !value.brokers.length;
  const chart = history.value ?? { times: [], series: {} };
  const series = (name) => chart.series[name] ?? [];
  return html`
    <div class="head-row"><h1>${t("Overview")}</h1><span class="quiet as-of">${t("as of {time}", { time: clock(value.atMs) })}</span><${Chips} label=${t("Time span of the charts")} value=${minutes} options=${spans()} onInput=${(text) => filter({ minutes: text === "60" ? "" : text })} /></div>
    ${value.errors.length > 0 && html`<div class="problem" role="alert"><strong>${t("Not everything could be found out")}</strong>${value.errors.map((one) => html`<div key=${one}>${one}</div>`)}</div>`}
    <section class="tiles" aria-label=${t("Sums over the cluster")}>
      <${Tile} title=${t("Brokers")} value=${unknown ? "–" : number(value.brokers.length)} note=${unknown ? t("not known") : gone.length ? t("{count} not answering", { count: gone.length }) : t("all answer")} state=${unknown || gone.length ? "bad" : "good"} />
      <${Tile} title=${t("In")} value=${rate(totals.inTps)} note=${t("messages/s")} />
      <${Tile} title=${t("Out")} value=${rate(totals.outTps)} note=${t("messages/s")} />
      <${Tile} title=${t("Lag")} value=${short(totals.lag)} note=${totals.lag == null ? "" : t("Groups: {count}", { count: value.groupCount })} />
      <${Tile} title=${t("Dead letters")} value=${short(totals.deadLetters)} note=${t("messages")} state=${totals.deadLetters > 0 ? "warn" : ""} />
      <${Tile} title=${t("Fullest disk")} value=${percent(totals.diskRatio)} note=${totals.unflushedBytes == null ? "" : t("{size} not on disk", { size: bytes(totals.unflushedBytes) })} state=${totals.diskRatio > 0.85 ? "bad" : totals.diskRatio > 0.75 ? "warn" : ""} />
    </section>
    <section class="charts" aria-label=${t("Charts")}>
      <${Chart} title=${t("In, messages/s")} times=${chart.times} seconds=${seconds} values=${series("inTps")} format=${short} />
      <${Chart} title=${t("Out, messages/s")} times=${chart.times} seconds=${seconds} values=${series("outTps")} format=${short} tone="--accent-2" />
      <${Chart} title=${t("Lag, messages")} times=${chart.times} seconds=${seconds} values=${series("lag")} format=${short} tone="--warn" />
      <${Chart} title=${t("Dead letters")} times=${chart.times} seconds=${seconds} values=${series("deadLetters")} format=${short} tone="--bad" />
    </section>
    <section class="card"><div class="head-row titled"><h2>${t("Brokers")}</h2><${Download} path=${inCluster(cluster, "/overview")} /></div>
      <${Table} label=${t("Brokers")} rows=${value.brokers} rowKey=${(one) => one.address} rowClass=${(one) => (one.state === "down" || one.state === "refusing" ? "gone" : "")} columns=${brokerColumns()}
        empty=${none(t("No broker is registered"), t("Start one with: orbitmq broker --namesrv …"))} />
    </section>
    <section class="card"><h2>${t("Groups furthest behind")}</h2>
      <${Table} label=${t("Groups furthest behind")} rows=${value.groups} rowKey=${(one) => one.group} columns=${groupColumns(cluster)}
        empty=${none(t("No group is behind"), t("Every consumer group has read everything."))} />
    </section>`;
}

const State = ({ broker }) => html`<span class=${`state ${broker.state}`} title=${broker.error ?? ""}>${t(broker.state)}</span>`;

const brokerColumns = () => [
  { key: "name", title: t("Broker"), cell: (one) => html`<strong>${one.name}</strong> <span class="quiet">${one.cluster}</span>` },
  { key: "role", title: t("Role"), cell: (one) => (one.brokerId === 0 ? t("master") : t("slave {id}", { id: one.brokerId })) },
  { key: "state", title: t("State"), cell: (one) => html`<${State} broker=${one} />` },
  { key: "address", title: t("Address"), hide: "narrow", cell: (one) => html`<code>${one.address}</code>` },
  { key: "version", title: t("Version"), hide: "narrow", cell: (one) => one.version ?? "–" },
  { key: "in", title: t("In/s"), align: "number", cell: (one) => rate(one.inTps) },
  { key: "out", title: t("Out/s"), align: "number", cell: (one) => rate(one.outTps) },
  { key: "today", title: t("In today"), align: "number", hide: "narrow", cell: (one) => number(one.inToday) },
  { key: "gap", title: t("Replica behind"), align: "number", hide: "narrow", cell: (one) => (one.brokerId === 0 ? "–" : bytes(one.behindBytes)) },
  { key: "unflushed", title: t("Not on disk"), align: "number", hide: "narrow", cell: (one) => html`<span title=${one.unflushedSeconds == null ? "" : t("oldest {age}", { age: span(one.unflushedSeconds * 1000) })}>${bytes(one.unflushedBytes)}</span>` },
  { key: "disk", title: t("Disk"), cell: (one) => html`<${Bar} ratio=${one.diskRatio} />` },
];

const Bar = ({ ratio }) => (ratio == null ? "–" : html`<span class="bar"><meter min="0" max="1" low="0.75" high="0.85" optimum="0" value=${ratio} aria-label=${t("Disk")}></meter>${percent(ratio)}</span>`);

const groupColumns = (cluster) => [
  { key: "group", title: t("Group"), cell: (one) => html`<a href=${address(cluster, "groups", one.group)}>${one.group}</a>` },
  { key: "members", title: t("Members"), align: "number", cell: (one) => html`<span class=${one.members ? "" : "bad-text"}>${number(one.members)}</span>` },
  { key: "lag", title: t("Lag"), align: "number", cell: (one) => number(one.lag) },
  { key: "why", title: t("Cause"), cell: (one) => html`<a href=${address(cluster, "groups", one.group, { tab: "why" })} aria-label=${t("Why is {name} behind?", { name: one.group })}>${t("Why?")}</a>` },
];
