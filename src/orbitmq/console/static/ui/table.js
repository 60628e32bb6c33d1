// A table that renders only the rows in view: 5,000 topics scroll as 20 do. Columns: { key, title, cell, value, align, hide }.
import { html, useEffect, useMemo, useRef, useState } from "/static/html.js";
import { t } from "/static/words.js";

const ROW = 44;
// On a phone a row is a card with a line for each column; so many pixels each, where rows have one height.
const LINE = 30;
const CARD = 20;
const phone = matchMedia("(max-width: 720px)");
const OVERSCAN = 8;
const FEW = 80;

export function Table({ rows, columns, label, rowKey, sort, onSort, onVisible, rowClass, empty }) {
  const box = useRef(null);
  const [view, setView] = useState({ from: 0, to: FEW });
  const [isPhone, setPhone] = useState(phone.matches);
  useEffect(() => {
    const change = () => setPhone(phone.matches);
    phone.addEventListener("change", change);
    return () => phone.removeEventListener("change", change);
  }, []);
  const row = isPhone ? CARD + LINE * columns.filter((one) => one.hide !== "narrow").length : ROW;
  const ordered = useMemo(() => order(rows, columns, sort), [rows, columns, sort]);
  const isVirtual = ordered.length > FEW;
  useEffect(() => {
    const scroll = () => {
      if (!isVirtual) { setView({ from: 0, to: ordered.length }); return; }
      const top = -box.current.getBoundingClientRect().top;
      const from = Math.max(0, Math.floor(top / row) - OVERSCAN);
      setView({ from: Math.min(from, ordered.length), to: Math.min(ordered.length, from + Math.ceil(innerHeight / row) + 2 * OVERSCAN) });
    };
    scroll();
    addEventListener("scroll", scroll, { passive: true });
    addEventListener("resize", scroll);
    return () => { removeEventListener("scroll", scroll); removeEventListener("resize", scroll); };
  }, [ordered, isVirtual, row]);
  const to = Math.min(view.to, ordered.length);
  const from = Math.min(view.from, to);
  const shown = ordered.slice(from, to);
  const names = shown.map(rowKey).join("\n");
  useEffect(() => { onVisible?.(shown); }, [names]);
  if (!ordered.length) return empty ?? null;
  return html`<div class="table-box">
    <table class="cards" aria-label=${label} aria-rowcount=${ordered.length + 1}>
      <thead><tr aria-rowindex="1">${columns.map((one) => html`<th key=${one.key} scope="col" class=${`${one.align ?? ""} ${one.hide ?? ""}`}
        aria-sort=${sort?.key === one.key ? (sort.down ? "descending" : "ascending") : undefined}>
        ${onSort && one.value
          ? html`<button type="button" class="head" onClick=${() => onSort(next(sort, one))}>${one.title}<span class="arrow" aria-hidden="true">${sort?.key === one.key ? (sort.down ? "↓" : "↑") : ""}</span></button>`
          : html`<span>${one.title}</span>`}</th>`)}</tr></thead>
      <tbody ref=${box}>
        ${isVirtual && from > 0 && html`<tr class="space" aria-hidden="true" style=${{ height: `${from * row}px` }}><td colspan=${columns.length}></td></tr>`}
        ${shown.map((one, index) => html`<tr key=${rowKey(one)} aria-rowindex=${from + index + 2} class=${`${isVirtual ? "fixed" : ""} ${rowClass?.(one) ?? ""}`} style=${isVirtual && isPhone ? { height: `${row}px` } : undefined}>
          ${columns.map((column) => html`<td key=${column.key} data-title=${column.label ?? column.title} class=${`${column.align ?? ""} ${column.hide ?? ""}`}>${column.cell(one)}</td>`)}</tr>`)}
        ${isVirtual && to < ordered.length && html`<tr class="space" aria-hidden="true" style=${{ height: `${(ordered.length - to) * row}px` }}><td colspan=${columns.length}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

const next = (sort, column) => ({ key: column.key, down: sort?.key === column.key ? !sort.down : column.align === "number" });

function order(rows, columns, sort) {
  const column = sort && columns.find((one) => one.key === sort.key && one.value);
  if (!column) return rows;
  const sign = sort.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = column.value(a), y = column.value(b);
    if (x == null || y == null) return x == null ? (y == null ? 0 : 1) : -1;
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
}

export const count = (shown, all) => (shown === all ? t("{all} in all", { all }) : t("{shown} of {all}", { shown, all }));
