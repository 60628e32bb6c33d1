// A table that renders only the rows in view: 5,000 topics scroll as 20 do. Columns: { key, title, cell, value, align, hide }.
import { html, useEffect, useMemo, useRef, useState } from "/static/html.js";
import { t } from "/static/words.js";

const ROW = 44;
const OVERSCAN = 8;
const FEW = 80;

export function Table({ rows, columns, label, rowKey, sort, onSort, onVisible, rowClass, empty }) {
  const box = useRef(null);
  const [view, setView] = useState({ from: 0, to: FEW });
  const ordered = useMemo(() => order(rows, columns, sort), [rows, columns, sort]);
  const isVirtual = ordered.length > FEW;
  useEffect(() => {
    const scroll = () => {
      if (!isVirtual) { setView({ from: 0, to: ordered.length }); return; }
      const top = -box.current.getBoundingClientRect().top;
      const from = Math.max(0, Math.floor(top / ROW) - OVERSCAN);
      setView({ from: Math.min(from, ordered.length), to: Math.min(ordered.length, from + Math.ceil(innerHeight / ROW) + 2 * OVERSCAN) });
    };
    scroll();
    addEventListener("scroll", scroll, { passive: true });
    addEventListener("resize", scroll);
    return () => { removeEventListener("scroll", scroll); removeEventListener("resize", scroll); };
  }, [ordered, isVirtual]);
  const to = Math.min(view.to, ordered.length);
  const from = Math.min(view.from, to);
  const shown = ordered.slice(from, to);
  const names = shown.map(rowKey).join("\n");
  useEffect(() => { onVisible?.(shown); }, [names]);
  if (!ordered.length) return empty ?? null;
  return html`<div class="table-box">
    <table aria-label=${label} aria-rowcount=${ordered.length + 1}>
      <thead><tr aria-rowindex="1">${columns.map((one) => html`<th key=${one.key} scope="col" class=${`${one.align ?? ""} ${one.hide ?? ""}`}
        aria-sort=${sort?.key === one.key ? (sort.down ? "descending" : "ascending") : undefined}>
        ${onSort && one.value
          ? html`<button type="button" class="head" onClick=${() => onSort(next(sort, one))}>${one.title}<span class="arrow" aria-hidden="true">${sort?.key === one.key ? (sort.down ? "↓" : "↑") : ""}</span></button>`
          : one.title}</th>`)}</tr></thead>
      <tbody ref=${box}>
        ${isVirtual && from > 0 && html`<tr class="space" aria-hidden="true" style=${{ height: `${from * ROW}px` }}><td colspan=${columns.length}></td></tr>`}
        ${shown.map((row, index) => html`<tr key=${rowKey(row)} aria-rowindex=${from + index + 2} class=${`${isVirtual ? "fixed" : ""} ${rowClass?.(row) ?? ""}`}>
          ${columns.map((one) => html`<td key=${one.key} data-title=${one.title} class=${`${one.align ?? ""} ${one.hide ?? ""}`}>${one.cell(row)}</td>`)}</tr>`)}
        ${isVirtual && to < ordered.length && html`<tr class="space" aria-hidden="true" style=${{ height: `${(ordered.length - to) * ROW}px` }}><td colspan=${columns.length}></td></tr>`}
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
