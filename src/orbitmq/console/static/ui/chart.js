// One line over time by uPlot, in the colours of the page, as wide as its box.
import { html, useEffect, useRef } from "/static/html.js";

// No chart is longer than a day: hours and minutes are enough, and seconds where ticks are closer.
const clock = (ticks) => ticks.map((seconds) => new Date(seconds * 1000).toTimeString().slice(0, ticks[1] - ticks[0] < 60 ? 8 : 5));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ title, times, values, format, tone = "--accent" }) {
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const element = box.current; // the reference is gone before the observer is, where a page is left
    const axis = { stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const fill = () => css(tone) + "22";
    plot.current = new uPlot({
      width: Math.max(200, element.clientWidth), height: 150, legend: { show: false },
      padding: [8, 12, 0, 0], cursor: { y: false, points: { size: 6 } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.15, 1e-9 + (high || 1))] } },
      axes: [{ ...axis, space: 70, size: 28, values: (_, ticks) => clock(ticks) }, { ...axis, size: 58, space: 32, values: (_, ticks) => ticks.map(format) }],
      series: [{}, { stroke: () => css(tone), fill, width: 1.75, points: { show: false }, spanGaps: false }],
    }, [times, values], element);
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height: 150 }));
    resize.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => plot.current?.redraw();
    scheme.addEventListener("change", redraw);
    return () => { scheme.removeEventListener("change", redraw); resize.disconnect(); plot.current.destroy(); plot.current = null; };
  }, []);
  useEffect(() => { plot.current?.setData([times, values]); }, [times, values]);
  const last = values.length ? values[values.length - 1] : null;
  return html`<figure class="chart"><figcaption>${title}<span>${format(last)}</span></figcaption>
    <div ref=${box} role="img" aria-label=${`${title}: ${format(last)}`}></div></figure>`;
}
