// The frame of all pages: who is logged in, where one is, and the view of that address.
import { html, render, effect, useEffect, useLayoutEffect, useState } from "/static/html.js";
import { get, post, session, silent } from "/static/api.js";
import { address, go, place } from "/static/router.js";
import { choose, language, LANGUAGES, load, t } from "/static/words.js";
import { Loading, Notices, Problem } from "/static/ui/notice.js";
import { Login } from "/static/views/login.js";
import { VIEWS, viewOf } from "/static/views/all.js";

async function begin() {
  const view = viewOf(place.value.view);
  // If the code of the view does not load, the view itself shows the error.
  const [found] = await Promise.all([get("/api/session"), load(language.value), view?.load().catch(() => {})]);
  if (!place.value.cluster && found.clusters.length) go(address(found.clusters[0], "overview"), { replace: true });
  session.value = found;
}

// One page: drawn when its code is there.
function View({ view, cluster, name }) {
  const [, draw] = useState(0);
  const [error, setError] = useState(null);
  useEffect(() => { if (!view.component) view.load().then(() => draw(1), setError); }, [view]);
  if (error) return html`<${Problem} error=${error} retry=${() => location.reload()} />`;
  return view.component ? html`<${view.component} cluster=${cluster} name=${name} />` : html`<${Loading} />`;
}

function Frame() {
  const { cluster, view, name } = place.value;
  const [open, setOpen] = useState(false); // the menu of phones
  useEffect(() => setOpen(false), [cluster, view, name]);
  const clusters = session.value.clusters;
  const known = clusters.includes(cluster);
  useEffect(() => { if (!cluster && clusters.length) go(address(clusters[0], "overview"), { replace: true }); }, [cluster, clusters]);
  const found = viewOf(view);
  const title = found ? (name || t(found.title)) : t("No such page");
  useEffect(() => { document.title = `${title} · ${cluster} · OrbitMQ`; }, [title, cluster]);
  return html`
    <a class="skip" href="#main">${t("Skip to the content")}</a>
    <header class="top">
      <a class="brand" href=${address(cluster || clusters[0], "overview")}><img src="/static/icon.svg" alt="" width="26" height="26" /><span>OrbitMQ</span></a>
      <select class="cluster" aria-label=${t("Cluster")} value=${cluster} onChange=${(event) => go(address(event.target.value, view || "overview"))}>
        ${!known && html`<option value=${cluster} selected>${cluster}</option>`}
        ${clusters.map((one) => html`<option key=${one} value=${one} selected=${one === cluster}>${one}</option>`)}
      </select>
      <button type="button" class="menu" aria-expanded=${open} aria-controls="pages" onClick=${() => setOpen(!open)}><span class="bars" aria-hidden="true"></span>${t("Menu")}</button>
      <nav id="pages" class=${open ? "open" : ""} aria-label=${t("Pages")}>
        ${VIEWS.filter((one) => one.shown?.() ?? true).map((one) => html`<a key=${one.key} href=${address(cluster || clusters[0], one.key)} aria-current=${one === found ? "page" : undefined}>${t(one.title)}</a>`)}
      </nav>
      <div class=${`top-end ${open ? "open" : ""}`}>
        <select aria-label=${t("Language")} value=${language.value} onChange=${(event) => choose(event.target.value)}>
          ${Object.entries(LANGUAGES).map(([key, text]) => html`<option key=${key} value=${key} lang=${key} selected=${key === language.value}>${text}</option>`)}
        </select>
        ${session.value.wantsLogin && html`<span class="who" title=${t(session.value.role)}>${session.value.user}</span><button type="button" onClick=${leave}>${t("Log out")}</button>`}
      </div>
    </header>
    <main id="main" tabindex="-1" key=${cluster + view + name}>
      ${silent.value && html`<p class="problem warn" role="status">${t("These brokers do not answer, and are left out: {brokers}", { brokers: silent.value })}</p>`}
      ${cluster && !known
        ? html`<h1>${t("No such cluster")}</h1><p>${t("Clusters of this console:")} ${clusters.map((one) => html`<a key=${one} href=${address(one, "overview")}>${one}</a> `)}</p>`
        : found && cluster ? html`<${View} view=${found} cluster=${cluster} name=${name} />` : !cluster ? html`<${Loading} />` : html`<h1>${t("No such page")}</h1><p><a href=${address(cluster, "overview")}>${t("Overview")}</a></p>`}
    </main>`;
}

async function leave() {
  await post("/api/logout");
  session.value = await get("/api/session");
}

function App() {
  const [error, setError] = useState(null);
  useLayoutEffect(() => { begin().catch(setError); }, []); // an ordinary effect would wait for the first paint
  language.value; // all texts are drawn anew in another language
  let inside = html`<${Loading} />`;
  if (error) inside = html`<main id="main"><${Problem} error=${error} retry=${() => location.reload()} /></main>`;
  else if (session.value) inside = session.value.user ? html`<${Frame} />` : html`<${Login} />`;
  return html`${inside}<${Notices} />`;
}

addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName) && !document.querySelector("dialog[open]")) {
    const filter = document.getElementById("filter");
    if (filter) { event.preventDefault(); filter.focus(); }
  }
});
effect(() => { document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en"; });
render(html`<${App} />`, document.getElementById("app"));
