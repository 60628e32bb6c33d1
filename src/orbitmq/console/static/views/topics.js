import { html, useEffect, useMemo, useRef, useState } from "/static/html.js";
import { get, inCluster, may, part, put } from "/static/api.js";
import { useLive } from "/static/live.js";
import { ago, number, rate } from "/static/format.js";
import { address, filter, go, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Chips, Filter } from "/static/ui/fields.js";
import { Empty, Loading, Problem, say, YoungBrokers } from "/static/ui/notice.js";
import { count, Table } from "/static/ui/table.js";
import { Dialog } from "/static/ui/dialog.js";
import { TopicFields, fromForm, NEW, toForm } from "/static/views/topic_form.js";
import { Text } from "/static/ui/fields.js";
import { TopicView } from "/static/views/topic.js";

export const TopicsView = (props) => (props.name ? html`<${TopicView} ...${props} />` : html`<${TopicList} ...${props} />`);

const kinds = () => [["normal", t("Topics")], ["retry", t("Retries")], ["deadLetter", t("Dead letters")], ["system", t("System")], ["all", t("All")]];

function TopicList({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/topics"), 30);
  const query = place.value.query;
  const text = query.get("filter") ?? "";
  const kind = query.get("kind") ?? "normal";
  const like = query.get("like") ?? "";
  const [figures, setFigures] = useState({});
  const [young, setYoung] = useState({});
  const [creating, setCreating] = useState(false);
  const [sort, setSort] = useState({ key: "name", down: false });
  const asked = useRef(new Map());
  const rows = useMemo(() => {
    const wanted = text.toLowerCase();
    return (value?.topics ?? []).filter((one) => (kind === "all" || one.kind === kind) && one.name.toLowerCase().includes(wanted));
  }, [value, text, kind]);

  // Figures are asked for as rows come into view, and again after 15 s.
  async function look(shown) {
    const old = Date.now() - 15000;
    const missing = shown.map((one) => one.name).filter((name) => (asked.current.get(name) ?? 0) < old).slice(0, 60);
    if (!missing.length) return;
    missing.forEach((name) => asked.current.set(name, Date.now()));
    try {
      const found = await get(inCluster(cluster, `/topic-figures?${missing.map((name) => `topic=${part(name)}`).join("&")}`));
      setFigures((before) => ({ ...before, ...Object.fromEntries(found.topics.map((one) => [one.name, one])) }));
      setYoung(found.youngBrokers);
    } catch {
      missing.forEach((name) => asked.current.delete(name));
    }
  }
  const columns = [
    { key: "name", title: t("Topic"), value: (one) => one.name, cell: (one) => html`<a href=${address(cluster, "topics", one.name)}>${one.name}</a>${one.kind !== "normal" && html` <span class="tag">${t(one.kind)}</span>`}` },
    { key: "messages", title: t("Messages"), align: "number", cell: (one) => figure(figures, one, (f) => number(f.messages)) },
    { key: "in", title: t("In/s"), align: "number", cell: (one) => figure(figures, one, (f) => rate(f.inTps)) },
    { key: "day", title: t("In 24 h"), align: "number", hide: "narrow", cell: (one) => figure(figures, one, (f) => number(f.inDay)) },
    { key: "queues", title: t("Queues"), align: "number", hide: "narrow", cell: (one) => figure(figures, one, (f) => number(f.queues)) },
    { key: "groups", title: t("Groups"), align: "number", hide: "narrow", cell: (one) => figure(figures, one, (f) => number(f.groups)) },
    { key: "last", title: t("Last stored"), align: "number", hide: "narrow", cell: (one) => figure(figures, one, (f) => (f.lastMs ? t("{age} ago", { age: ago(f.lastMs) }) : "–")) },
  ];
  return html`
    <div class="head-row"><h1>${t("Topics")}</h1>${may("admin") && html`<button type="button" class="primary" onClick=${() => setCreating(true)}>${t("Create topic")}</button>`}</div>
    <div class="tools"><${Filter} label=${t("Filter by name")} value=${text} onInput=${(changed) => filter({ filter: changed })} />
      <${Chips} label=${t("Kind")} value=${kind} options=${kinds()} onInput=${(changed) => filter({ kind: changed === "normal" ? "" : changed })} />
      ${value && html`<span class="quiet" role="status">${count(rows.length, value.topics.length)}</span>`}
      <${Download} path=${rows.length && rows.length <= 60 ? inCluster(cluster, `/topic-figures?${rows.map((one) => `topic=${part(one.name)}`).join("&")}`) : inCluster(cluster, `/topics${kind === "all" ? "" : `?kind=${kind}`}`)} filter=${rows.length > 60 ? text : ""} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${loading ? html`<${Loading} />` : value && html`<section class="card"><${Table} label=${t("Topics")} rows=${rows} rowKey=${(one) => one.name} columns=${columns} sort=${sort} onSort=${setSort} onVisible=${look}
      empty=${html`<${Empty} title=${t("No topic here")}>${text ? t("No name contains “{text}”.", { text }) : t("Create one, or send to one: orbitmq produce --topic NAME")}<//>`} /></section>`}
    <${YoungBrokers} brokers=${young} />
    ${(creating || like) && html`<${CreateTopic} key=${like} cluster=${cluster} like=${like} onClose=${() => { setCreating(false); if (like) filter({ like: "" }); }} />`}`;
}

function figure(figures, topic, show) {
  const found = figures[topic.name];
  if (!found) return html`<span class="skeleton" role="img" aria-label=${t("Loading")}></span>`;
  return found.error ? html`<span class="quiet" title=${found.error}>–</span>` : show(found);
}

// With `like` the settings are those of that topic.
function CreateTopic({ cluster, like, onClose }) {
  const [name, setName] = useState("");
  const [form, setForm] = useState(NEW);
  const { value: model, error } = useLive(like ? inCluster(cluster, `/topics/${part(like)}`) : null, 0);
  useEffect(() => { if (model) setForm(toForm(model)); }, [model]);
  async function create() {
    await put(inCluster(cluster, `/topics/${part(name)}`), { ...fromForm(form), create: true });
    say(t("Topic {name} is created", { name }));
    go(address(cluster, "topics", name));
  }
  return html`<${Dialog} title=${like ? t("Clone {name}", { name: like }) : t("Create topic")} action=${t("Create")} onSubmit=${create} onClose=${onClose} disabled=${!name || (like && !model)}>
    <${Problem} error=${error} />
    <${Text} label=${t("Name")} value=${name} onInput=${setName} wide required maxlength="127" hint=${t("Letters, digits and %|_- only; on all brokers of the cluster.")} />
    <${TopicFields} form=${form} onInput=${setForm} isNew />
  <//>`;
}
