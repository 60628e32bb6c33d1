// Messages of a topic as they come in: the newest are kept, so that a page left open stays small.
import { html, useState } from "/static/html.js";
import { useStream } from "/static/live.js";
import { number } from "/static/format.js";
import { filter, place } from "/static/router.js";
import { t } from "/static/words.js";
import { Text } from "/static/ui/fields.js";
import { Empty, Problem } from "/static/ui/notice.js";
import { Message } from "/static/views/messages.js";

const KEPT = 200;
const NAMES = ["tag", "sql", "text", "rate"];
const nothing = { messages: [], seen: 0, leftOut: 0, unread: 0, unreadReason: "", begun: false };

export function Tail({ path }) {
  const query = place.value.query;
  const [form, setForm] = useState(() => ({ tag: "", sql: "", text: "", rate: "20", ...Object.fromEntries(NAMES.filter((name) => query.get(name)).map((name) => [name, query.get(name)])) }));
  const [wanted, setWanted] = useState(form);
  const [on, setOn] = useState(true);
  const [state, setState] = useState(nothing);
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  const error = useStream(`${path}/tail?${new URLSearchParams(wanted)}`, on, (event) => setState((before) => ({
    messages: [...event.messages.reverse(), ...before.messages].slice(0, KEPT), seen: before.seen + event.seen, leftOut: before.leftOut + event.leftOut, unread: before.unread + event.unread, unreadReason: event.unreadReason || before.unreadReason, begun: true,
  })));
  function apply(event) {
    event.preventDefault();
    filter(form);
    setState(nothing);
    setWanted({ ...form });
    setOn(true);
  }
  return html`<div class="pad"><form class="fields" onSubmit=${apply}>
      <${Text} label=${t("Tag")} hint=${t("Several with || between.")} value=${form.tag} onInput=${set("tag")} />
      <${Text} label=${t("SQL92 filter")} hint=${t("Over properties, such as price > 5.")} value=${form.sql} onInput=${set("sql")} />
      <${Text} label=${t("Text in body or properties")} value=${form.text} onInput=${set("text")} />
      <${Text} label=${t("Messages a second")} type="number" min="1" max="100" required value=${form.rate} onInput=${set("rate")} />
      <div class="wide actions"><button type="submit" class="primary">${t("Apply")}</button>
        <button type="button" onClick=${() => setOn(!on)}>${on ? t("Pause") : t("Go on now")}</button><button type="button" onClick=${() => setState({ ...nothing, begun: state.begun })}>${t("Clear")}</button></div>
    </form>
    <${Problem} error=${error} />
    ${!error && html`<p class="quiet" role="status">${!on ? t("Paused") : state.begun ? t("Live: {seen} came in, {shown} shown, {out} left out beyond the rate", { seen: number(state.seen), shown: number(state.messages.length), out: number(state.leftOut) }) : t("Connecting")}</p>`}
    ${state.unread > 0 && html`<p class="note">${t("{count} bodies were not searched: {reason}", { count: number(state.unread), reason: state.unreadReason })}</p>`}
    ${state.begun && !state.messages.length && html`<${Empty} title=${t("Nothing yet")}>${t("Messages appear here as they come in.")}<//>`}
    <div class="messages">${state.messages.map((one) => html`<${Message} key=${one.id + one.queueOffset} message=${one} open=${false} />`)}</div></div>`;
}
