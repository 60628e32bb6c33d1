// Numbers, sizes and times as people read them. The locale is the page's language; hours are those of a day everywhere.
import { language, t } from "/static/words.js";

const plain = () => new Intl.NumberFormat(language.value);
export const number = (value) => (value == null ? "–" : plain().format(Math.round(value)));
export function rate(value) {
  if (value == null) return "–";
  return new Intl.NumberFormat(language.value, { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 }).format(value);
}
export function short(value) {
  if (value == null) return "–";
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}
export function bytes(value) {
  if (value == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) { value /= 1024; index += 1; }
  return `${value < 10 && index ? value.toFixed(1) : Math.round(value)} ${units[index]}`;
}
export const percent = (value) => (value == null ? "–" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);
export function time(ms) {
  if (!ms || ms <= 0) return "–";
  return new Intl.DateTimeFormat(language.value, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" }).format(new Date(ms));
}
export const clock = (ms) => new Intl.DateTimeFormat(language.value, { timeStyle: "medium", hourCycle: "h23" }).format(new Date(ms));
const two = (value, unit, rest, small) => (rest ? `${value} ${unit} ${rest} ${small}` : `${value} ${unit}`);
export function span(ms) {
  if (ms == null || ms < 0) return "–";
  const seconds = ms / 1000;
  const [short, minute, hour] = [t("s"), t("min"), t("h")];
  if (seconds < 1) return `${Math.round(ms)} ${t("ms")}`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 && seconds % 1 ? 1 : 0)} ${short}`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), minute, Math.floor(seconds % 60), short);
  if (seconds < 86400) return two(Math.floor(seconds / 3600), hour, Math.floor((seconds % 3600) / 60), minute);
  return two(Math.floor(seconds / 86400), t("d"), Math.floor((seconds % 86400) / 3600), hour);
}
export function ago(ms) {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  return !ms || ms <= 0 ? "–" : seconds ? span(1000 * seconds) : `0 ${t("s")}`;
}
export const perm = (bits) => `${bits & 4 ? "R" : "–"}${bits & 2 ? "W" : "–"}`;
// A time to the millisecond: what happens to a message happens fast.
export function moment(ms) {
  const parts = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" };
  return new Intl.DateTimeFormat(language.value, parts).format(new Date(ms));
}
