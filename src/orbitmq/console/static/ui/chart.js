// One line over time by uPlot, in the colours of the page, as wide as its box.
import { html, useEffect, useRef } from "/static/html.js";

// No chart is longer than a day: hours and minutes are enough, and seconds where ticks are closer.
const clock = (ticks) => ticks.map((seconds) => new Date(seconds * 1000).toTimeString().slice(0, ticks[1] - ticks[0] < 60 ? 8 : 5));

// The span that was asked for, from the first point on, and five minutes at least: no axis is so short that its labels repeat.
export function rangeOf(times, seconds) {
  const end = times.at(-1) ?? Date.now() / 1000;
  return [Math.max(end - seconds, Math.min(times[0] ?? end, end - 300)), end];
}

// Labels with as many digits as tell neighbours apart.
export function labels(ticks, language) {
  for (let digits = 1; digits < 6; digits += 1) {
    const format = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: digits });
    const texts = ticks.map((value) => format.format(value));
    if (new Set(texts).size === texts.length) return texts;
  }
  return ticks.map(String);
}

// As wide as the longest label: 11 px letters, 7 px each at most, and the gap.
const width = (_, texts) => Math.max(34, 12 + 7 * Math.max(0, ...(texts ?? []).map((one) => one.length)));

// Where no point came for three times the usual while, nothing was known: the line ends there. The console asks a slow cluster
// once a minute: so much is no gap.
const LONGEST = 90;
export function withGaps(times, values) {
  const steps = times.slice(1).map((at, index) => at - times[index]).sort((a, b) => a - b);
  const usual = steps[Math.floor(steps.length / 2)] ?? 0;
  const out = [[], []];
  times.forEach((at, index) => {
    if (index && at - times[index - 1] > Math.max(LONGEST, 3 * usual)) { out[0].push(times[index - 1] + usual); out[1].push(null); }
    out[0].push(at);
    out[1].push(values[index]);
  });
  return out;
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ title, times, values, format, seconds, tone = "--accent" }) {
  const span = useRef(seconds);
  span.current = seconds;
  const box = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const element = box.current; // the reference is gone before the observer is, where a page is left
    const axis = { stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const fill = () => css(tone) + "22";
    plot.current = new uPlot({
      width: Math.max(200, element.clientWidth), height: 150, legend: { show: false },
      padding: [10, 26, 0, 0], cursor: { y: false, points: { size: 6 } },
      scales: { x: { time: true, range: (chart) => rangeOf(chart.data[0] ?? [], span.current) }, y: { range: (_, low, high) => [0, Math.max(high * 1.15, 1e-9 + (high || 1))] } },
      axes: [{ ...axis, space: 70, size: 28, values: (_, ticks) => clock(ticks) }, { ...axis, size: width, space: 32, values: (_, ticks) => labels(ticks, "en") }],
      series: [{}, { stroke: () => css(tone), fill, width: 1.75, points: { show: (chart) => chart.data[1].filter((one) => one != null).length === 1, size: 5 }, spanGaps: false }],
    }, withGaps(times, values), element);
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height: 150 }));
    resize.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => plot.current?.redraw();
    scheme.addEventListener("change", redraw);
    return () => { scheme.removeEventListener("change", redraw); resize.disconnect(); plot.current.destroy(); plot.current = null; };
  }, []);
  useEffect(() => { plot.current?.setData(withGaps(times, values)); }, [times, values, seconds]);
  const last = values.length ? values[values.length - 1] : null;
  return html`<figure class="chart"><figcaption>${title}<span>${format(last)}</span></figcaption>
    <div ref=${box} role="img" aria-label=${`${title}: ${format(last)}`}></div></figure>`;
}
