// The page's language: the browser's, or the one that was chosen here. Texts are keyed by their English.
import { signal } from "/static/html.js";

const KEY = "orbitmq-language";
export const LANGUAGES = { en: "English", zh: "中文" };

function first() {
  const chosen = localStorage.getItem(KEY);
  if (chosen in LANGUAGES) return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = signal(first());
const words = signal({});

export async function load(name) {
  words.value = name === "en" ? {} : (await import(`/static/words/${name}.js`)).default;
  language.value = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
}

export function choose(name) {
  localStorage.setItem(KEY, name);
  return load(name);
}

// `{name}` in a text is replaced by the value of that name.
export function t(text, values) {
  const found = words.value[text] ?? text;
  return values ? found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole)) : found;
}

// A text of the console's API that comes with its values apart; values may be such texts themselves.
export function phrase(one) {
  return t(one.text, Object.fromEntries(Object.entries(one.values).map(([name, value]) => [name, typeof value === "string" ? value : phrase(value)])));
}
