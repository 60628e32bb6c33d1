import { html } from "/static/html.js";
import { useLive } from "/static/live.js";
import { time } from "/static/format.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Empty, Loading, Problem } from "/static/ui/notice.js";
import { Table } from "/static/ui/table.js";

export function Audit() {
  const { value, error, loading, reload } = useLive("/api/audit", 10);
  const columns = [
    { key: "at", title: t("When"), cell: (one) => time(one.atMs) },
    { key: "user", title: t("User"), cell: (one) => html`${one.user} <span class="quiet">${one.address}</span>` },
    { key: "action", title: t("Action"), cell: (one) => html`<code>${one.action}</code>` },
    { key: "target", title: t("Target"), cell: (one) => one.target },
    { key: "outcome", title: t("Outcome"), cell: (one) => html`<span class=${one.outcome === "done" ? "" : "bad-text"} title=${one.error ?? ""}>${one.outcome}</span>` },
    { key: "change", title: t("Change"), hide: "narrow", cell: (one) => html`<${Change} entry=${one} />` },
  ];
  return html`<h1>${t("Audit log")}</h1>
    <p class="quiet">${t("Changes through this console since it started. The file audit.jsonl in its folder has all of them.")}</p>
    <div class="tools"><${Download} path="/api/audit" /></div><${Problem} error=${error} retry=${reload} />
    ${loading ? html`<${Loading} />` : html`<section class="card"><${Table} label=${t("Audit log")} rows=${value?.entries ?? []} rowKey=${(one) => `${one.atMs} ${one.action} ${one.target}`} columns=${columns}
      empty=${html`<${Empty} title=${t("No change yet")}>${t("Every change through this console is listed here.")}<//>`} /></section>`}
    ${value?.refusedLogins?.length > 0 && html`<h2>${t("Refused logins")}</h2><section class="card"><${Table} label=${t("Refused logins")} rows=${value.refusedLogins} rowKey=${(one) => `${one.atMs} ${one.address} ${one.outcome}`} columns=${REFUSED()} /></section>`}`;
}

const REFUSED = () => [
  { key: "at", title: t("When"), cell: (one) => time(one.atMs) },
  { key: "address", title: t("Address"), cell: (one) => one.address || t("several") },
  { key: "outcome", title: t("Outcome"), cell: (one) => html`<span class="bad-text" title=${one.error ?? ""}>${one.outcome}</span>` },
  { key: "count", title: t("Count"), cell: (one) => one.count },
  { key: "users", title: t("Users"), cell: (one) => (one.users ?? []).join(", ") },
];

function Change({ entry }) {
  if (entry.before == null && entry.after == null) return "–";
  return html`<details><summary>${t("before and after")}</summary><pre>${JSON.stringify({ before: entry.before, after: entry.after }, null, 1)}</pre></details>`;
}
