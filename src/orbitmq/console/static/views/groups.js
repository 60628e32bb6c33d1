import { html, useMemo, useState } from "/static/html.js";
import { inCluster, may, part, put } from "/static/api.js";
import { useLive } from "/static/live.js";
import { number, rate } from "/static/format.js";
import { address, filter, go, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Filter, Text } from "/static/ui/fields.js";
import { Dialog } from "/static/ui/dialog.js";
import { Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { count, Table } from "/static/ui/table.js";
import { GroupView } from "/static/views/group.js";
import { fromSettings, GroupFields, NEW_GROUP } from "/static/views/group_settings.js";

export const GroupsView = (props) => (props.name ? html`<${GroupView} ...${props} />` : html`<${GroupList} ...${props} />`);

function GroupList({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/groups"), 10);
  const text = place.value.query.get("filter") ?? "";
  const [sort, setSort] = useState({ key: "lag", down: true });
  const [creating, setCreating] = useState(false);
  const rows = useMemo(() => (value?.groups ?? []).filter((one) => one.group.toLowerCase().includes(text.toLowerCase())), [value, text]);
  const columns = [
    { key: "group", title: t("Group"), value: (one) => one.group, cell: (one) => html`<a href=${address(cluster, "groups", one.group)}>${one.group}</a>` },
    { key: "members", title: t("Members"), align: "number", value: (one) => one.members, cell: (one) => html`<span class=${one.members || !one.lag ? "" : "bad-text"}>${number(one.members)}</span>` },
    { key: "lag", title: t("Lag"), align: "number", value: (one) => one.lag, cell: (one) => number(one.lag) },
    { key: "flight", title: t("In flight"), align: "number", hide: "narrow", value: (one) => one.inFlight, cell: (one) => number(one.inFlight) },
    { key: "tps", title: t("Out/s"), align: "number", hide: "narrow", value: (one) => one.tps, cell: (one) => rate(one.tps) },
    { key: "dead", title: t("Dead letters"), align: "number", value: (one) => one.deadLetters, cell: (one) => html`<span class=${one.deadLetters ? "bad-text" : ""}>${number(one.deadLetters)}</span>` },
    { key: "why", title: t("Cause"), cell: (one) => one.lag > 0 && html`<a href=${address(cluster, "groups", one.group, { tab: "why" })} aria-label=${t("Why is {name} behind?", { name: one.group })}>${t("Why?")}</a>` },
  ];
  return html`
    <div class="head-row"><h1>${t("Groups")}</h1>${may("admin") && html`<button type="button" class="primary" onClick=${() => setCreating(true)}>${t("Create group")}</button>`}</div>
    <div class="tools"><${Filter} label=${t("Filter by name")} value=${text} onInput=${(changed) => filter({ filter: changed })} />${value && html`<span class="quiet" role="status">${count(rows.length, value.groups.length)}</span>`}<${Download} path=${inCluster(cluster, "/groups")} filter=${text} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${value?.errors.length > 0 && html`<div class="problem" role="alert"><strong>${t("Not everything could be found out")}</strong>${value.errors.map((one) => html`<div key=${one}>${one}</div>`)}</div>`}
    ${loading ? html`<${Loading} />` : value && html`<section class="card"><${Table} label=${t("Groups")} rows=${rows} rowKey=${(one) => one.group} columns=${columns} sort=${sort} onSort=${setSort}
      empty=${html`<${Empty} title=${t("No group here")}>${text ? t("No name contains “{text}”.", { text }) : t("A group is there once a consumer has started.")}<//>`} /></section>`}
    ${creating && html`<${CreateGroup} cluster=${cluster} onClose=${() => setCreating(false)} />`}`;
}

function CreateGroup({ cluster, onClose }) {
  const [name, setName] = useState("");
  const [form, setForm] = useState(NEW_GROUP);
  async function create() {
    await put(inCluster(cluster, `/groups/${part(name)}/settings`), { ...fromSettings(form), create: true });
    say(t("Group {name} is made", { name }));
    go(address(cluster, "groups", name));
  }
  return html`<${Dialog} title=${t("Create group")} action=${t("Create")} onSubmit=${create} onClose=${onClose} disabled=${!name}>
    <${Text} label=${t("Name")} value=${name} onInput=${setName} wide required maxlength="255" />
    <${GroupFields} form=${form} onInput=${setForm} /><//>`;
}
