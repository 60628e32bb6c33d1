// Tabs as links: each has its own address.
import { html } from "/static/html.js";
import { address, place } from "/static/router.js";

export function Tabs({ label, tabs, current }) {
  const { cluster, view, name } = place.value;
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([key, title]) => html`<a key=${key} href=${address(cluster, view, name, key === tabs[0][0] ? {} : { tab: key })} aria-current=${key === current ? "page" : undefined}>${title}</a>`)}
  </nav>`;
}
