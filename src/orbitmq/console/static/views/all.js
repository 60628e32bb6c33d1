// Every page of the navigation, in its order. A page that is not here is not linked.
import { may } from "/static/api.js";
import { Overview } from "/static/views/overview.js";
import { TopicsView } from "/static/views/topics.js";
import { GroupsView } from "/static/views/groups.js";
import { Messages } from "/static/views/messages.js";
import { DeadLetters } from "/static/views/dead_letters.js";
import { Waiting } from "/static/views/waiting.js";
import { Access } from "/static/views/access.js";
import { Servers } from "/static/views/servers.js";
import { Audit } from "/static/views/audit.js";

export const VIEWS = [
  { key: "overview", title: "Overview", component: Overview },
  { key: "topics", title: "Topics", component: TopicsView },
  { key: "groups", title: "Groups", component: GroupsView },
  { key: "messages", title: "Messages", component: Messages },
  { key: "dead-letters", title: "Dead letters", component: DeadLetters },
  { key: "waiting", title: "Waiting", component: Waiting },
  { key: "cluster", title: "Cluster", component: Servers },
  { key: "access", title: "Access", component: Access },
  { key: "audit", title: "Audit log", component: Audit, shown: () => may("admin") },
];
