// Users and rules of brokers with access control, and why somebody may do something or may not.
import { html, useState } from "/static/html.js";
import { inCluster, may, part, post, remove, request } from "/static/api.js";
import { useLive } from "/static/live.js";
import { address, filter, go, place } from "/static/router.js";
import { phrase, t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Check, Choice, Filter, Text } from "/static/ui/fields.js";
import { Dialog } from "/static/ui/dialog.js";
import { Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";
import { Tabs } from "/static/ui/tabs.js";

const ACTIONS = ["Pub", "Sub", "Create", "Update", "Delete", "Get", "List"];
const has = (text, ...parts) => parts.some((one) => one.toLowerCase().includes(text.toLowerCase()));

export function Access({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/access"), 15);
  const query = place.value.query;
  const tab = query.get("tab") ?? "users";
  const text = query.get("filter") ?? "";
  const [dialog, setDialog] = useState(null);
  const tabs = [["users", t("Users")], ["rules", t("Rules")], ["explain", t("Why?")]];
  const done = (words) => { setDialog(null); say(words); reload(); };
  const path = inCluster(cluster, "/access");
  const brokers = value?.brokers ?? [];
  const open = brokers.filter((one) => !one.error && !one.authenticates && !one.authorizes);
  const failed = brokers.filter((one) => one.error);
  return html`
    <div class="head-row"><h1>${t("Access")}</h1>${may("admin") && html`<div class="actions"><button type="button" onClick=${() => setDialog({ kind: "rule" })}>${t("Create rule")}</button><button type="button" class="primary" onClick=${() => setDialog({ kind: "user" })}>${t("Create user")}</button></div>`}</div>
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${failed.map((one) => html`<div class="problem" role="alert" key=${one.address}><strong>${one.broker} ${one.address}</strong><div>${one.error}</div></div>`)}
    ${open.length > 0 && html`<p class="quiet">${t("Without access control, so anybody may do everything: {brokers}", { brokers: open.map((one) => one.broker).join(", ") })}</p>`}
    <${Tabs} label=${t("Parts of access control")} tabs=${tabs} current=${tab} />
    ${tab === "explain" ? html`<${Explain} cluster=${cluster} path=${path} />` : value && html`
      <div class="tools"><${Filter} label=${t("Filter by name")} value=${text} onInput=${(changed) => filter({ filter: changed })} /><${Download} path=${path} rows=${tab} filter=${text} /></div>
      <section class="card">${tab === "users"
        ? html`<${Table} label=${t("Users")} rows=${value.users.filter((one) => has(text, one.name))} rowKey=${(one) => `${one.name} ${one.type} ${one.status}`} columns=${userColumns(cluster, brokers, setDialog)} empty=${html`<${Empty} title=${t("No user here")}><//>`} />`
        : html`<${Table} label=${t("Rules")} rows=${value.rules.filter((one) => has(text, one.user, one.resource))} rowKey=${(one) => JSON.stringify(one)} columns=${ruleColumns(cluster, brokers, setDialog)} empty=${html`<${Empty} title=${t("No rule here")}>${t("A user who is not super may do only what a rule allows.")}<//>`} />`}</section>`}
    ${dialog?.kind === "user" && html`<${NewUser} path=${path} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "change" && html`<${ChangeUser} path=${path} user=${dialog.user} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "delete" && html`<${DeleteUser} path=${path} user=${dialog.user} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "rule" && html`<${NewRule} path=${path} first=${dialog.rule} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "delete-rule" && html`<${DeleteRule} path=${path} rule=${dialog.rule} onClose=${() => setDialog(null)} onDone=${done} />`}`;
}

// Every broker has users and rules of its own: what is not on all of them is marked.
const On = ({ one, brokers }) => (one.brokers.length === brokers.length ? t("all") : html`<span class="bad-text">${t("only {brokers}", { brokers: brokers.filter((broker) => one.brokers.includes(broker.address)).map((broker) => broker.broker).join(", ") })}</span>`);

const userColumns = (cluster, brokers, onDialog) => [
  { key: "name", title: t("User"), cell: (one) => html`<a class="mono" href=${address(cluster, "access", "", { tab: "rules", filter: one.name })}>${one.name}</a>` },
  { key: "type", title: t("Type"), cell: (one) => html`<span class="tag">${one.type}</span>` },
  { key: "status", title: t("Status"), cell: (one) => html`<span class=${`state ${one.status === "enable" ? "active" : "down"}`}>${one.status === "enable" ? t("enabled") : t("disabled")}</span>` },
  { key: "on", title: t("Brokers"), hide: "narrow", cell: (one) => html`<${On} one=${one} brokers=${brokers} />` },
  { key: "why", title: t("Why?"), cell: (one) => html`<a href=${address(cluster, "access", "", { tab: "explain", user: one.name })} aria-label=${t("What may {name} do, and why?", { name: one.name })}>${t("Why?")}</a>` },
  ...(may("admin") ? [{ key: "act", title: t("Action"), cell: (one) => html`<div class="actions"><button type="button" aria-label=${`${t("Change")} ${one.name}`} onClick=${() => onDialog({ kind: "change", user: one })}>${t("Change")}</button><button type="button" class="danger-text" aria-label=${`${t("Delete")} ${one.name}`} onClick=${() => onDialog({ kind: "delete", user: one })}>${t("Delete")}</button></div>` }] : []),
];

const ruleColumns = (cluster, brokers, onDialog) => [
  { key: "user", title: t("User"), cell: (one) => html`<span class="mono">${one.user}</span>` },
  { key: "resource", title: t("Resource"), cell: (one) => html`<span class="mono">${one.resource}</span>${one.policy === "Default" && html` <span class="tag">${one.policy}</span>`}` },
  { key: "actions", title: t("Actions"), cell: (one) => one.actions.join(", ") },
  { key: "source", title: t("From"), hide: "narrow", cell: (one) => (one.sourceIps.length ? html`<code>${one.sourceIps.join(", ")}</code>` : t("anywhere")) },
  { key: "decision", title: t("Decision"), cell: (one) => html`<${Decision} allowed=${one.decision === "Allow"} />` },
  { key: "on", title: t("Brokers"), hide: "narrow", cell: (one) => html`<${On} one=${one} brokers=${brokers} />` },
  ...(may("admin") ? [{ key: "act", title: t("Action"), cell: (one) => html`<div class="actions"><button type="button" aria-label=${`${t("Change")} ${one.user} ${one.resource}`} onClick=${() => onDialog({ kind: "rule", rule: one })}>${t("Change")}</button><button type="button" class="danger-text" aria-label=${`${t("Delete")} ${one.user} ${one.resource}`} onClick=${() => onDialog({ kind: "delete-rule", rule: one })}>${t("Delete")}</button></div>` }] : []),
];

const Decision = ({ allowed }) => html`<span class=${`state ${allowed ? "active" : "down"}`}>${allowed ? t("allowed") : t("refused")}</span>`;

function Explain({ cluster, path }) {
  const query = place.value.query;
  const [form, setForm] = useState({ user: "", resource: "Topic:", action: "Pub", source: "", ...Object.fromEntries(query) });
  const set = (name) => (text) => setForm({ ...form, [name]: text });
  const ready = query.get("user") && query.get("resource") && query.get("action");
  const wanted = new URLSearchParams(["user", "resource", "action", "source"].map((name) => [name, query.get(name) ?? ""]));
  const { value, error, loading, reload } = useLive(ready ? `${path}/explain?${wanted}` : null, 0);
  function submit(event) {
    event.preventDefault();
    const to = address(cluster, "access", "", { tab: "explain", user: form.user.trim(), resource: form.resource.trim(), action: form.action, source: form.source.trim() });
    if (to === location.pathname + location.search) reload();
    else go(to);
  }
  const verdicts = { decides: t("decides"), later: t("applies, but a more specific rule decides"), resource: t("is about another resource"), action: t("is about other actions"), source: t("is for other addresses"), unreadable: t("cannot be read") };
  const columns = [
    { key: "rule", title: t("Rule"), cell: (one) => html`<span class="mono">${one.resource}</span> ${one.actions.join(", ")}${one.sourceIps.length > 0 && html` <code>${one.sourceIps.join(", ")}</code>`} ${one.policy === "Default" && html`<span class="tag">${one.policy}</span>`}` },
    { key: "decision", title: t("Decision"), cell: (one) => one.decision },
    { key: "verdict", title: t("Part in the decision"), cell: (one) => (one.verdict === "decides" ? html`<strong>${verdicts[one.verdict]}</strong>` : html`<span class="quiet">${verdicts[one.verdict]}</span>`) },
  ];
  return html`<section class="card"><form class="fields" onSubmit=${submit}>
      <${Text} label=${t("User")} value=${form.user} onInput=${set("user")} required />
      <${Choice} label=${t("Action")} value=${form.action} onInput=${set("action")} options=${ACTIONS.map((one) => [one, one])} hint=${t("Sending needs Pub on the topic, consuming Sub on topic and group.")} />
      <${Text} label=${t("Resource")} value=${form.resource} onInput=${set("resource")} required hint=${t("Topic:NAME, Group:NAME or Cluster:NAME")} />
      <${Text} label=${t("From address")} value=${form.source} onInput=${set("source")} hint=${t("Matters for rules with addresses only.")} />
      <div class="wide"><button type="submit" class="primary">${t("Explain")}</button></div></form></section>
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value?.brokers.map((one, index) => html`<section class="card" key=${one.address}><div class="pad explained">
        <div><${Decision} allowed=${one.allowed === true} /> <span class="quiet">${one.broker} · <code>${one.address}</code></span> <span class="tag">${one.cause}</span></div>
        <strong>${phrase(value.words[index].sentence)}</strong>${one.advice && html`<div class="quiet">${phrase(value.words[index].advice)}</div>`}</div>
      ${one.rules.length > 0 && html`<${Table} label=${t("Rules of {user} on {broker}", { user: query.get("user"), broker: one.broker })} rows=${one.rules} rowKey=${(rule) => JSON.stringify(rule)} columns=${columns} />`}
    </section>`)}`;
}

function NewUser({ path, onClose, onDone }) {
  const [form, setForm] = useState({ name: "", password: "", type: "Normal" });
  const set = (name) => (text) => setForm({ ...form, [name]: text });
  async function make() {
    await post(`${path}/users`, { ...form, name: form.name.trim() });
    onDone(t("User {name} is created", { name: form.name.trim() }));
  }
  return html`<${Dialog} title=${t("Create user")} action=${t("Create")} onSubmit=${make} onClose=${onClose} disabled=${!form.name.trim() || !form.password}>
    <div class="fields"><${Text} label=${t("Name")} value=${form.name} onInput=${set("name")} required /><${Text} label=${t("Password")} type="password" value=${form.password} onInput=${set("password")} required autocomplete="new-password" />
    <${Types} value=${form.type} onInput=${set("type")} /></div><//>`;
}

const Types = ({ value, onInput }) => html`<${Choice} label=${t("Type")} value=${value} onInput=${onInput} options=${[["Normal", t("Normal: rules count")], ["Super", t("Super: may do everything")]]} />`;

function ChangeUser({ path, user, onClose, onDone }) {
  const [form, setForm] = useState({ password: "", type: user.type, enabled: user.status === "enable" });
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  async function change() {
    await request("PATCH", `${path}/users/${part(user.name)}`, { password: form.password || null, type: form.type === user.type ? null : form.type, enabled: form.enabled === (user.status === "enable") ? null : form.enabled });
    onDone(t("User {name} is changed", { name: user.name }));
  }
  return html`<${Dialog} title=${t("Change {name}", { name: user.name })} action=${t("Change")} onSubmit=${change} onClose=${onClose}>
    <div class="fields"><${Text} label=${t("New password")} type="password" value=${form.password} onInput=${set("password")} hint=${t("Empty leaves it as it is.")} autocomplete="new-password" />
    <${Types} value=${form.type} onInput=${set("type")} /><${Check} label=${t("May sign in")} value=${form.enabled} onInput=${set("enabled")} /></div><//>`;
}

function DeleteUser({ path, user, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  async function erase() {
    await remove(`${path}/users/${part(user.name)}`, { confirm: typed });
    onDone(t("User {name} is deleted", { name: user.name }));
  }
  return html`<${Dialog} title=${t("Delete {name}", { name: user.name })} action=${t("Delete for good")} danger disabled=${typed !== user.name} onSubmit=${erase} onClose=${onClose}>
    <p>${t("Deletes the user and all its rules on all brokers. Whoever signs as this user is refused at once.")}</p>
    <${Text} label=${t("Type the name of the user to confirm")} value=${typed} onInput=${setTyped} wide /><//>`;
}

function NewRule({ path, first, onClose, onDone }) {
  const [form, setForm] = useState({ user: first?.user ?? "", resource: first?.resource ?? "Topic:", actions: first?.actions ?? ["Pub"], decision: first?.decision ?? "Allow", policy: first?.policy ?? "Custom", sources: (first?.sourceIps ?? []).join(" ") });
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  const toggle = (name) => (on) => setForm({ ...form, actions: on ? [...form.actions, name] : form.actions.filter((one) => one !== name) });
  async function make() {
    const { sources, ...rest } = form;
    await post(`${path}/rules`, { ...rest, user: form.user.trim(), resource: form.resource.trim(), sourceIps: sources.split(/[\s,]+/).filter(Boolean) });
    onDone(t("The rule about {resource} is set", { resource: form.resource.trim() }));
  }
  return html`<${Dialog} title=${first ? t("Change rule") : t("Create rule")} action=${t("Set")} onSubmit=${make} onClose=${onClose} disabled=${!form.user.trim() || !form.actions.length}>
    <div class="fields"><${Text} label=${t("User")} value=${form.user} onInput=${set("user")} required disabled=${Boolean(first)} /><${Text} label=${t("Resource")} value=${form.resource} onInput=${set("resource")} required disabled=${Boolean(first)} hint=${t("Topic:NAME, Group:NAME or Cluster:NAME; NAME may end in *")} />
      <fieldset class="field wide"><legend>${t("Actions")}</legend><div class="checks">${["All", ...ACTIONS].map((name) => html`<${Check} key=${name} label=${name} value=${form.actions.includes(name)} onInput=${toggle(name)} />`)}</div></fieldset>
      <${Choice} label=${t("Decision")} value=${form.decision} onInput=${set("decision")} options=${[["Allow", t("allow")], ["Deny", t("refuse")]]} />
      <${Choice} label=${t("Counts")} value=${form.policy} onInput=${set("policy")} options=${[["Custom", t("always")], ["Default", t("where no other rule applies")]]} />
      <${Text} label=${t("From address")} value=${form.sources} onInput=${set("sources")} hint=${t("Addresses or ranges, separated by blanks; empty is anywhere.")} wide /></div><//>`;
}

function DeleteRule({ path, rule, onClose, onDone }) {
  async function erase() {
    await remove(`${path}/rules`, { user: rule.user, resource: rule.resource, policy: rule.policy });
    onDone(t("The rule about {resource} is deleted", { resource: rule.resource }));
  }
  return html`<${Dialog} title=${t("Delete rule")} action=${t("Delete for good")} danger onSubmit=${erase} onClose=${onClose}>
    <p>${t("{user} may no longer rely on the rule about {resource}, on all brokers.", { user: rule.user, resource: rule.resource })}</p><//>`;
}
