// Every page of the navigation, in its order. A page that is not here is not linked. Its code is loaded when it is opened.
import { may } from "/static/api.js";

const of = (file, name) => async function load() {
  this.component = (await import(`/static/views/${file}.js`))[name];
};

export const VIEWS = [
  { key: "overview", title: "Overview", load: of("overview", "Overview") },
  { key: "topics", title: "Topics", load: of("topics", "TopicsView") },
  { key: "groups", title: "Groups", load: of("groups", "GroupsView") },
  { key: "messages", title: "Messages", load: of("messages", "Messages") },
  { key: "dead-letters", title: "Dead letters", load: of("dead_letters", "DeadLetters") },
  { key: "waiting", title: "Waiting", load: of("waiting", "Waiting") },
  { key: "cluster", title: "Cluster", load: of("servers", "Servers") },
  { key: "access", title: "Access", load: of("access", "Access") },
  { key: "audit", title: "Audit log", load: of("audit", "Audit"), shown: () => may("admin") },
];

export const viewOf = (key) => VIEWS.find((one) => one.key === (key || "overview"));
