import { html, useEffect, useMemo, useState } from "/static/html.js";
import { get, inCluster, may, part, post } from "/static/api.js";
import { useLive, useTask } from "/static/live.js";
import { number, time } from "/static/format.js";
import { address, filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Area, Check, Choice, Filter, Pairs, Text } from "/static/ui/fields.js";
import { Dialog } from "/static/ui/dialog.js";
import { complain, Empty, Loading, Problem, say } from "/static/ui/notice.js";
import { count, Table } from "/static/ui/table.js";
import { Message } from "/static/views/messages.js";

const states = () => ({ planning: t("planning"), running: t("running"), done: t("done"), planned: t("planned"), sending: t("under way"), sent: t("sent"), skipped: t("skipped"), refused: t("refused"), gone: t("gone"), stopped: t("stopped"), unsure: t("in doubt") });
const keyOf = (cause) => JSON.stringify([cause.topic, cause.exception, cause.shape]);
const placeOf = (one) => `${one.broker}/${one.queueId}/${one.queueOffset}`;

export function DeadLetters({ cluster, name }) {
  const run = place.value.query.get("run");
  if (run) return html`<${RunView} cluster=${cluster} id=${run} />`;
  return name ? html`<${DeadLettersOf} cluster=${cluster} group=${name} />` : html`<${GroupList} cluster=${cluster} />`;
}

function GroupList({ cluster }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, "/dead-letters"), 10);
  const text = place.value.query.get("filter") ?? "";
  const [sort, setSort] = useState({ key: "count", down: true });
  const rows = useMemo(() => (value?.groups ?? []).filter((one) => one.group.toLowerCase().includes(text.toLowerCase())), [value, text]);
  const columns = [
    { key: "group", title: t("Group"), value: (one) => one.group, cell: (one) => html`<a href=${address(cluster, "dead-letters", one.group)}>${one.group}</a>` },
    { key: "count", title: t("Dead letters"), align: "number", value: (one) => one.count, cell: (one) => number(one.count) },
    { key: "last", title: t("Last stored"), align: "number", hide: "narrow", value: (one) => one.lastMs, cell: (one) => time(one.lastMs) },
  ];
  return html`
    <h1>${t("Dead letters")}</h1>
    <div class="tools"><${Filter} label=${t("Filter by name")} value=${text} onInput=${(changed) => filter({ filter: changed })} />${value && html`<span class="quiet" role="status">${count(rows.length, value.groups.length)}</span>`}<${Download} path=${inCluster(cluster, "/dead-letters")} filter=${text} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${value?.errors.length > 0 && html`<div class="problem" role="alert"><strong>${t("Not everything could be found out")}</strong>${value.errors.map((one) => html`<div key=${one}>${one}</div>`)}</div>`}
    ${loading ? html`<${Loading} />` : value && html`<section class="card"><${Table} label=${t("Dead letters")} rows=${rows} rowKey=${(one) => one.group} columns=${columns} sort=${sort} onSort=${setSort}
      empty=${html`<${Empty} title=${t("No dead letters")}>${t("Messages that a group has failed on too often are listed here.")}<//>`} /></section>`}
    <${Runs} cluster=${cluster} />`;
}

function Runs({ cluster, group, round }) {
  const { value, error, reload } = useLive(inCluster(cluster, "/redrives"), 2);
  useEffect(() => { if (round) reload(); }, [round]);
  const rows = (value?.runs ?? []).filter((one) => !group || one.group === group);
  const columns = [
    { key: "began", title: t("Begun"), cell: (one) => html`<a href=${address(cluster, "dead-letters", one.group, { run: one.id })}>${time(one.beganMs)}</a>` },
    { key: "group", title: t("Group"), hide: "narrow", cell: (one) => one.group },
    { key: "user", title: t("User"), hide: "narrow", cell: (one) => one.user },
    { key: "state", title: t("State"), cell: (one) => html`<span class="tag">${states()[one.state]}</span>${one.error && html`<div class="bad-text">${one.error}</div>`}` },
    { key: "progress", title: t("Dead letters"), cell: (one) => html`<${Progress} run=${one} />` },
    { key: "stop", title: t("Stop"), cell: (one) => one.endedMs == null && may("operator") && html`<button type="button" onClick=${() => stop(cluster, one, reload)}>${t("Stop")}</button>` },
  ];
  if (!rows.length) return html`<${Problem} error=${error} />`;
  return html`<section class="card"><h2>${t("Resends")}</h2><${Table} label=${t("Resends")} rows=${rows} rowKey=${(one) => one.id} columns=${columns} /></section>`;
}

async function stop(cluster, run, reload) {
  try {
    await post(inCluster(cluster, `/redrives/${run.id}/stop`));
  } catch (error) {
    complain(error);
  }
  reload();
}

function Progress({ run }) {
  const all = Object.values(run.counts).reduce((sum, one) => sum + one, 0);
  const left = (run.counts.planned ?? 0) + (run.counts.sending ?? 0);
  const words = states();
  return html`${run.endedMs == null && all > 0 && html`<progress max=${all} value=${all - left} aria-label=${t("Progress")}></progress> `}${Object.entries(run.counts).map(([state, letters]) => `${words[state]}: ${number(letters)}`).join(" · ")}`;
}

function RunView({ cluster, id }) {
  const { value, error, loading, reload } = useLive(inCluster(cluster, `/redrives/${part(id)}?max=1000`), 2);
  const columns = [
    { key: "place", title: t("Place"), cell: (one) => html`<span class="mono">${placeOf(one.place)}</span>` },
    { key: "topic", title: t("Topic"), hide: "narrow", cell: (one) => html`<span class="mono">${one.topic || "–"}</span>` },
    { key: "state", title: t("State"), cell: (one) => html`<span class="tag">${states()[one.state]}</span> ${one.note}` },
    { key: "sent", title: t("Sent"), hide: "narrow", cell: (one) => time(one.sentMs) },
    { key: "id", title: t("Message id"), cell: (one) => (one.sentId ? html`<a class="mono" href=${address(cluster, "messages", "", { by: "unique", topic: one.topic, uniqueId: one.uniqueId })}>${one.sentId}</a>` : "–") },
  ];
  return html`
    <nav class="crumbs" aria-label=${t("Path")}><a href=${address(cluster, "dead-letters")}>${t("Dead letters")}</a> / ${value && html`<a href=${address(cluster, "dead-letters", value.run.group)}>${value.run.group}</a> /`}</nav>
    <div class="head-row"><h1>${t("Resend {id}", { id })}</h1>${value && value.run.endedMs == null && may("operator") && html`<button type="button" onClick=${() => stop(cluster, value.run, reload)}>${t("Stop")}</button>`}</div>
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    ${value && html`<dl class="facts"><div><dt>${t("State")}</dt><dd>${states()[value.run.state]}</dd></div><div><dt>${t("User")}</dt><dd>${value.run.user}</dd></div><div><dt>${t("Begun")}</dt><dd>${time(value.run.beganMs)}</dd></div><div><dt>${t("Dead letters")}</dt><dd><${Progress} run=${value.run} /></dd></div></dl>
      ${value.run.error && html`<div class="problem" role="alert"><strong>${value.run.error}</strong></div>`}
      <div class="tools"><${Download} path=${inCluster(cluster, `/redrives/${part(id)}?max=1000`)} /></div>
      <section class="card"><${Table} label=${t("Dead letters")} rows=${value.letters} rowKey=${(one) => placeOf(one.place)} columns=${columns} empty=${html`<${Empty} title=${t("No dead letters yet")}><//>`} /></section>`}`;
}

function DeadLettersOf({ cluster, group }) {
  const path = inCluster(cluster, `/dead-letters/${part(group)}`);
  const { value, error, running, stop: cancel, restart } = useTask(`${path}/clusters`);
  const [request, setRequest] = useState(null);
  const [round, setRound] = useState(0);
  const chosen = place.value.query.get("cause");
  const found = value?.clusters.find((one) => keyOf(one.cause) === chosen);
  const columns = [
    { key: "topic", title: t("Topic"), cell: (one) => html`<span class="mono">${one.cause.topic ?? t("not known")}</span>` },
    { key: "cause", title: t("Exception or body"), cell: (one) => html`<a class="mono" href=${address(cluster, "dead-letters", group, { cause: keyOf(one.cause) })}>${one.cause.exception ?? one.cause.shape}</a>${one.reason && html`<div class="quiet">${one.reason}</div>`}` },
    { key: "count", title: t("Dead letters"), align: "number", cell: (one) => number(one.count) },
    { key: "replays", title: t("Resent before"), align: "number", hide: "narrow", cell: (one) => html`${number(one.resent)}${one.mostReplays > 1 && html`<div class="quiet">${t("up to {count} times", { count: number(one.mostReplays) })}</div>`}` },
    { key: "oldest", title: t("Oldest"), hide: "narrow", cell: (one) => time(one.oldestMs) },
    { key: "newest", title: t("Newest"), hide: "narrow", cell: (one) => time(one.newestMs) },
    { key: "resend", title: t("Resend"), cell: (one) => may("operator") && html`<button type="button" disabled=${running} onClick=${() => setRequest({ cause: one.cause })}>${t("Resend all")}</button>` },
  ];
  return html`
    <nav class="crumbs" aria-label=${t("Path")}><a href=${address(cluster, "dead-letters")}>${t("Dead letters")}</a> / </nav>
    <div class="head-row"><h1 class="mono">${group}</h1><div class="actions">${running ? html`<button type="button" onClick=${cancel}>${t("Stop reading")}</button>` : html`<button type="button" onClick=${restart}>${t("Read again")}</button>`}</div></div>
    <${Problem} error=${error} retry=${restart} />
    ${running && html`<div class="tools" role="status"><progress max=${value?.total || 1} value=${value?.scanned ?? 0} aria-label=${t("Progress")}></progress>${t("{scanned} of {total} dead letters read", { scanned: number(value?.scanned ?? 0), total: number(value?.total ?? 0) })}</div>`}
    ${value && html`<section class="card"><h2>${t("Causes")}</h2><${Table} label=${t("Causes")} rows=${value.clusters} rowKey=${(one) => keyOf(one.cause)} columns=${columns} empty=${!running && html`<${Empty} title=${t("No dead letters")}>${t("Messages that a group has failed on too often are listed here.")}<//>`} /></section>`}
    ${value?.beyond > 0 && html`<p class="quiet">${t("{count} dead letters of further causes are not told apart.", { count: number(value.beyond) })}</p>`}
    ${found && html`<${Sample} key=${chosen} cluster=${cluster} path=${path} found=${found} onResend=${setRequest} />`}
    <${Runs} cluster=${cluster} group=${group} round=${round} />
    ${request && html`<${Resend} path=${path} group=${group} request=${request} onClose=${() => setRequest(null)} onDone=${() => { setRequest(null); setRound((n) => n + 1); }} />`}`;
}

function Sample({ cluster, path, found, onResend }) {
  // The sample stays as it is while more dead letters are read, so that a selection stays, too.
  const [places] = useState(found.places);
  const query = new URLSearchParams(places.map((one) => ["place", placeOf(one)]));
  const { value, error, loading, reload } = useLive(`${path}/letters?${query}`, 0);
  const [selected, setSelected] = useState([]);
  const toggle = (key) => setSelected(selected.includes(key) ? selected.filter((one) => one !== key) : [...selected, key]);
  const letters = value?.letters ?? [];
  async function edit(one) {
    try {
      const [letter] = one.message.isCut ? (await get(`${path}/letters?${new URLSearchParams({ place: placeOf(one.place) })}`)).letters : [one];
      if (letter) onResend({ places: [letter.place], letter });
    } catch (failure) {
      complain(failure);
    }
  }
  return html`<div class="head-row"><h2>${t("Sample")}</h2>${may("operator") && letters.length > 0 && html`<button type="button" disabled=${!selected.length} onClick=${() => onResend({ places: letters.filter((one) => selected.includes(placeOf(one.place))).map((one) => one.place) })}>${t("Resend selected ({count})", { count: selected.length })}</button>`}</div>
    <${Problem} error=${error} retry=${reload} />${loading && html`<${Loading} />`}
    <div class="messages">${letters.map((one) => html`<div class="pick" key=${placeOf(one.place)}>
      ${may("operator") && html`<input type="checkbox" aria-label=${t("Select {place}", { place: placeOf(one.place) })} checked=${selected.includes(placeOf(one.place))} onChange=${() => toggle(placeOf(one.place))} />`}
      <${Message} message=${one.message} open=${letters.length === 1}>
        ${may("operator") && html`<div class="actions"><button type="button" onClick=${() => edit(one)}>${t("Edit and resend")}</button></div>`}
      <//></div>`)}</div>`;
}

const decode = (base64) => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
  } catch {
    return null;
  }
};

function encode(text) {
  let binary = "";
  for (const value of new TextEncoder().encode(text)) binary += String.fromCharCode(value);
  return btoa(binary);
}

function Resend({ path, group, request, onClose, onDone }) {
  const { letter } = request;
  // What is masked is not what is stored: an edit would store the mask.
  const original = letter && !letter.message.bodyProblem && !letter.message.isMasked ? decode(letter.message.body) : null;
  const [form, setForm] = useState({ to: "origin", rate: "50", maxReplays: "3", again: false, body: original, tags: letter?.message.tags ?? "", keys: letter?.message.keys.join(" ") ?? "", properties: letter ? Object.entries(letter.own) : [] });
  const [effect, setEffect] = useState(null);
  const set = (name) => (value) => { setForm({ ...form, [name]: value }); setEffect(null); };
  function body() {
    const edit = letter && { body: form.body === original ? null : encode(form.body), tags: form.tags, keys: form.keys, properties: letter.message.isMasked ? null : Object.fromEntries(form.properties) };
    return { places: request.places ?? [], cause: request.cause ?? null, to: form.to, rate: Number(form.rate), maxReplays: Number(form.maxReplays), again: form.again, edit: edit ?? null };
  }
  async function submit() {
    if (!effect) {
      setEffect(await post(`${path}/redrive-preview`, body()));
      return;
    }
    // What has come since the dry run stays: the run is of the number that the button names.
    const run = await post(`${path}/redrive`, { ...body(), untilMs: effect.newestMs });
    say(t("Resend {id} has begun", { id: run.id }));
    onDone();
  }
  return html`<${Dialog} title=${letter ? t("Edit and resend") : t("Resend dead letters of {group}", { group })} action=${effect ? t("Resend {count}", { count: number(effect.wouldSend) }) : t("Dry run")} disabled=${effect?.wouldSend === 0} onSubmit=${submit} onClose=${onClose}>
    <div class="fields">
      ${letter && (original === null ? html`<p class="wide quiet">${letter.message.bodyProblem || letter.message.isMasked ? t("The body cannot be edited here, and is sent as it is: {reason}", { reason: letter.message.bodyProblem ?? t("fields of it are masked") }) : t("The body is not text: it is sent as it is.")}</p>` : html`<${Area} label=${t("New body")} value=${form.body} onInput=${set("body")} />`)}
      ${letter && html`<${Text} label=${t("Tag")} value=${form.tags} onInput=${set("tags")} /><${Text} label=${t("Keys")} hint=${t("Separated by blanks.")} value=${form.keys} onInput=${set("keys")} />${!letter.message.isMasked && html`<${Pairs} label=${t("Properties")} value=${form.properties} onInput=${set("properties")} />`}`}
      <${Choice} label=${t("Send to")} value=${form.to} onInput=${set("to")} options=${[["origin", t("the first topic: all its groups")], ["retry", t("the retry topic: this group alone")]]} />
      <${Text} label=${t("Messages a second")} type="number" min="0.1" max="10000" step="any" required value=${form.rate} onInput=${set("rate")} />
      <${Text} label=${t("Leave out after resends")} hint=${t("Guards against loops.")} type="number" min="1" max="1000" required value=${form.maxReplays} onInput=${set("maxReplays")} />
      <${Check} label=${t("Also dead letters that were sent again before")} value=${form.again} onInput=${set("again")} />
    </div>
    ${effect && html`<div class="done" role="status"><strong>${t("{send} of {selected} dead letters would be sent.", { send: number(effect.wouldSend), selected: number(effect.selected) })}</strong>
      ${Object.entries(effect.topics).map(([topic, letters]) => html`<div key=${topic}>${t("{count} would be written to", { count: number(letters) })} <span class="mono">${topic}</span></div>`)}
      ${Object.entries(effect.skipped).map(([reason, letters]) => html`<div key=${reason}>${number(letters)}: ${reason}</div>`)}
      ${effect.filters.map((one) => html`<div key=${one.topic} class=${one.drops || one.error ? "bad-text" : ""}><span class="mono">${one.topic}</span>: ${one.known ? html`${t("the filter {expression} lets {passes} pass and drops {drops}.", { expression: one.expression, passes: number(one.passes), drops: number(one.drops) })} ${one.error}` : t("no member of the group subscribes now: its filter is not known.")}</div>`)}
    </div>`}
  <//>`;
}
