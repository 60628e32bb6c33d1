// A list as a file: links to the same question with a format.
import { html } from "/static/html.js";
import { t } from "/static/words.js";

export function Download({ path, rows, filter }) {
  const link = (format) => `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams({ format, ...(rows && { rows }), ...(filter && { filter }) })}`;
  return html`<span class="download" role="group" aria-label=${t("Download")}>${t("Download")} <a download href=${link("csv")}>CSV</a> <a download href=${link("ndjson")}>NDJSON</a></span>`;
}
