// The newest messages of a topic, all or those that are meant, and page by page the ones before them. The search and the page are
// in the address: a bookmark keeps both.
import { html, useEffect, useRef, useState } from "/static/html.js";
import { get, session } from "/static/api.js";
import { number, time } from "/static/format.js";
import { filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Download } from "/static/ui/download.js";
import { Text } from "/static/ui/fields.js";
import { copy, Empty, Loading, Problem } from "/static/ui/notice.js";
import { Message } from "/static/views/messages.js";

const NAMES = ["before", "tag", "key", "text"];
const PAGE = 32;
// Requests after which the reader decides whether to go on: each looks at 2,000 messages.
const AT_ONCE = 25;

// The question to the API for a page that begins where `after` says; empty for the first one.
function request(path, wanted, after) {
  const { before, ...filters } = wanted;
  const query = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
  if (after) query.after = after;
  else if (before && Number.isFinite(Date.parse(before))) query.beforeMs = Date.parse(before);
  return `${path}/messages?${new URLSearchParams({ ...query, max: PAGE })}`;
}

// Reads until there is a page of what is meant, or nothing is left.
function usePage(path, wanted, after, round) {
  const nothing = { messages: [], scanned: 0, unread: 0, next: "", leftOut: 0, backToMs: 0, unreadReason: "" };
  const [state, setState] = useState({ value: nothing, running: true, error: null });
  const open = useRef(null);
  const key = JSON.stringify([path, wanted, after, round]);
  async function read(value, following) {
    open.current?.abort();
    const stop = open.current = new AbortController();
    setState({ value, running: true, error: null });
    try {
      for (let asked = 0; asked < AT_ONCE; asked += 1) {
        const found = await get(request(path, wanted, following), { signal: stop.signal });
        value = { ...found, messages: [...value.messages, ...found.messages], scanned: value.scanned + found.scanned, unread: value.unread + found.unread, unreadReason: found.unreadReason || value.unreadReason };
        following = found.next;
        if (!following || value.messages.length >= PAGE) break;
        setState({ value, running: true, error: null });
      }
      setState({ value, running: false, error: null });
    } catch (error) {
      if (error.name !== "AbortError") setState({ value, running: false, error });
      else if (open.current === stop) setState({ value, running: false, error: null });
    }
  }
  useEffect(() => {
    read(nothing, after);
    return () => { const one = open.current; open.current = null; one?.abort(); };
  }, [key]);
  return { ...state, stop: () => open.current?.abort(), goOn: () => read(state.value, state.value.next) };
}

export function Newest({ path }) {
  const query = place.value.query;
  const wanted = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
  const after = query.get("after") ?? "";
  const [round, setRound] = useState(0);
  const [newer, setNewer] = useState([]); // the pages that were left
  const [form, setForm] = useState(wanted);
  const asked = JSON.stringify(wanted);
  useEffect(() => setForm(wanted), [asked]);
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  const { value, running, error, stop, goOn } = usePage(path, wanted, after, round);
  const isFiltered = Boolean(wanted.tag || wanted.key || wanted.text);
  function search(changed) {
    setNewer([]);
    filter({ ...changed, after: "" });
    setRound(round + 1);
  }
  function older() {
    setNewer([...newer, after]);
    filter({ after: value.next });
  }
  function back() {
    setNewer(newer.slice(0, -1));
    filter({ after: newer.at(-1) ?? "" });
  }
  const state = isFiltered
    ? t("{found} found among {scanned} messages read, back to {time}.", { found: number(value.messages.length), scanned: number(value.scanned), time: time(value.backToMs) })
    : t("Messages: {count}", { count: number(value.messages.length) });
  return html`<div class="pad"><form class="fields search" onSubmit=${(event) => { event.preventDefault(); search(form); }}>
      <${Text} label=${t("Tag")} hint=${t("Several with || between.")} value=${form.tag} onInput=${set("tag")} />
      <${Text} label=${t("Key")} value=${form.key} onInput=${set("key")} />
      <${Text} label=${session.value.readsBodies ? t("Text in body or properties") : t("Text in properties")} value=${form.text} onInput=${set("text")} />
      <${Text} label=${t("Stored before")} hint=${t("Empty: the newest.")} type="datetime-local" step="1" value=${form.before} onInput=${set("before")} />
      <div class="wide actions"><button type="submit" class="primary">${t("Show")}</button>
        ${(isFiltered || wanted.before || after) && html`<button type="button" onClick=${() => search({ before: "", tag: "", key: "", text: "" })}>${t("Newest of all")}</button>`}
        <button type="button" onClick=${() => copy(location.href, t("The link to this search is copied"))}>${t("Copy link")}</button></div>
    </form>
    <${Problem} error=${error} retry=${() => setRound(round + 1)} />
    <div class="tools paging"><span class="quiet" role="status">${running && !value.scanned ? t("Loading") : state}</span>
      ${running && html`<button type="button" onClick=${stop}>${t("Stop reading")}</button>`}
      ${!running && isFiltered && value.next && value.messages.length < PAGE && html`<button type="button" onClick=${goOn}>${t("Read on")}</button>`}
      <${Download} path=${request(path, wanted, after)} rows="messages" />
      <div class="actions"><button type="button" disabled=${!after} onClick=${back}>${t("Newer")}</button>
        <button type="button" disabled=${running || !value.next} onClick=${older}>${t("Older")}</button></div></div>
    ${value.leftOut > 0 && html`<p class="quiet">${t("{count} queues have no part in this page: it is made of those with the newest messages.", { count: number(value.leftOut) })}</p>`}
    ${value.unread > 0 && html`<p class="quiet">${t("{count} bodies were not searched: {reason}", { count: number(value.unread), reason: value.unreadReason })}</p>`}
    ${running && !value.messages.length && html`<${Loading} />`}
    ${!running && !error && !value.messages.length && html`<${Empty} title=${t("No messages")}>${isFiltered && t("Nothing that was read fits the search.")}<//>`}
    <div class="messages">${value.messages.map((one) => html`<${Message} key=${`${one.broker} ${one.queueId} ${one.queueOffset}`} message=${one} open=${false} isOfTopic />`)}</div></div>`;
}
