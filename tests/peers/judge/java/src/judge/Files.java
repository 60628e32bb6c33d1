package judge;

import static judge.Ctx.eq;
import static judge.Ctx.ok;
import static judge.Ctx.str;
import static judge.Ctx.utf;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * What is in a store directory: "write NAMESRV FILE" puts a known set of messages, offsets and settings into a broker and
 * notes in FILE what a client saw of them; "check NAMESRV FILE", asked of whichever broker has that store open now,
 * must see the same.
 */
public final class Files {
    static final java.io.PrintStream OUT = System.out;
    static int passed, failed;
    static Set<String> only;
    static Set<String> skip = new HashSet<>(); // of "write": tx, timer

    interface Body {
        void run() throws Exception;
    }

    static void check(String name, Body b) {
        if (only != null && !only.contains(name)) {
            return;
        }
        try {
            b.run();
            passed++;
            OUT.println("PASS " + name);
        } catch (Throwable t) {
            failed++;
            OUT.println("FAIL " + name + ": " + Judge.brief(t));
        }
        OUT.flush();
    }

    public static void main(String[] a) throws Exception {
        System.setOut(new java.io.PrintStream(new java.io.FileOutputStream(System.getProperty("judge.noise", "/dev/null"), true), true));
        for (int i = 3; i + 1 < a.length; i += 2) {
            (a[i].equals("--skip") ? skip : (only = new HashSet<>())).addAll(List.of(a[i + 1].split(",")));
        }
        int rc = 0;
        try {
            Env env = new Env(a[1], null);
            env.start();
            Ctx c = new Ctx(env, "files");
            if (a[0].equals("write")) {
                JSONObject d = write(c);
                java.nio.file.Files.write(new File(a[2]).toPath(), d.toString().getBytes(StandardCharsets.UTF_8));
                OUT.println("written " + d.getJSONArray("messages").size() + " messages");
            } else {
                checkAll(c, JSON.parseObject(new String(java.nio.file.Files.readAllBytes(new File(a[2]).toPath()), StandardCharsets.UTF_8)));
                OUT.println(passed + " passed, " + failed + " failed");
                rc = failed == 0 ? 0 : 1;
            }
        } catch (Throwable t) {
            OUT.println("FAIL setup: " + Judge.brief(t));
            OUT.println("0 passed, 1 failed");
            rc = 1;
        }
        OUT.flush();
        Runtime.getRuntime().halt(rc);
    }

    static JSONObject seen(MessageExt m) {
        JSONObject o = new JSONObject();
        o.put("topic", m.getTopic());
        o.put("q", m.getQueueId());
        o.put("off", m.getQueueOffset());
        o.put("phy", m.getCommitLogOffset());
        o.put("size", m.getStoreSize());
        o.put("crc", m.getBodyCRC());
        o.put("flag", m.getFlag());
        o.put("sys", m.getSysFlag());
        o.put("born", m.getBornTimestamp());
        o.put("store", m.getStoreTimestamp());
        o.put("id", m.getMsgId());
        o.put("tags", m.getTags());
        o.put("keys", m.getKeys());
        o.put("p", m.getUserProperty("p"));
        o.put("len", m.getBody().length);
        o.put("body", m.getBody().length < 200 ? str(m.getBody()) : Integer.toHexString(java.util.Arrays.hashCode(m.getBody())));
        return o;
    }

    static JSONObject write(Ctx c) throws Exception {
        JSONObject d = new JSONObject();
        String p = "F" + c.env.run, many = c.topic(p + "_many", 4, 6, "NORMAL"), one = c.topic(p + "_one", 1, 6, null);
        String late = c.topic(p + "_late", 1, 6, null), tx = c.topic(p + "_tx", 1, 6, null), fifo = c.topic(p + "_fifo", 3, 6, "FIFO");
        c.topic(p + "_readonly", 7, 4, null);
        d.put("prefix", p);
        DefaultMQProducer pr = c.producer();
        List<MessageQueue> qs = pr.fetchPublishMessageQueues(many);
        qs.sort(MessageQueue::compareTo);
        for (int i = 0; i < 300; i++) {
            Message m = new Message(many, "T" + i % 3, p + "key" + i + " common" + i % 10, utf("m" + i));
            m.putUserProperty("p", "v" + i);
            m.setFlag(i);
            pr.send(m, qs.get(i % 4));
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            batch.add(new Message(one, "B", p + "b" + i, utf("b" + i)));
        }
        pr.send(batch);
        pr.send(new Message(one, "Z", p + "zipped", utf(new String(new char[50_000]).replace("\0", "zip"))));
        byte[] big = new byte[1_500_000];
        new java.util.Random(5).nextBytes(big);
        pr.send(new Message(one, "R", p + "random", big));
        pr.send(new Message(one, "消息", p + "键", utf("消息")));
        // groups
        String g1 = p + "_g1", g2 = p + "_g2";
        SubscriptionGroupConfig sg = new SubscriptionGroupConfig();
        sg.setGroupName(g1);
        sg.setRetryMaxTimes(7);
        sg.setConsumeMessageOrderly(true);
        c.admin().createAndUpdateSubscriptionGroupConfig(c.master(), sg);
        sg = new SubscriptionGroupConfig();
        sg.setGroupName(g2);
        c.admin().createAndUpdateSubscriptionGroupConfig(c.master(), sg);
        long[] offs = {75, 50, 10, 0};
        for (int q = 0; q < 4; q++) {
            c.admin().updateConsumeOffset(c.master(), g1, qs.get(q), offs[q]);
        }
        Ctx.Got all = c.pushTo(g2, one, "*");
        all.awaitCount(23, 60);
        all.c.setAwaitTerminationMillisWhenShutdown(60_000); // the last message counts once its listener has returned
        all.c.shutdown();
        // transactions: committed, rolled back, and one nobody decided
        TransactionMQProducer tp = c.txProducer();
        tp.setProducerGroup(p + "_txgroup");
        tp.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                String b = str(m.getBody());
                return b.startsWith("yes") ? LocalTransactionState.COMMIT_MESSAGE : b.startsWith("no") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                return LocalTransactionState.UNKNOW;
            }
        });
        if (!skip.contains("tx")) {
            tp.start();
        }
        for (String b : skip.contains("tx") ? new String[0] : new String[] {"yes0", "no0", "yes1", "no1", "yes2"}) {
            tp.sendMessageInTransaction(new Message(tx, "T", b, utf(b)), null);
        }
        if (!skip.contains("tx")) {
            tp.sendMessageInTransaction(new Message(tx, "T", "open0", utf("open0")), null);
        }
        List<MessageExt> ml = new ArrayList<>(c.drain(many, 300, 20));
        ml.addAll(c.drain(one, 23, 20));
        if (!skip.contains("tx")) {
            ml.addAll(c.drain(tx, 3, 20));
        }
        JSONArray arr = new JSONArray();
        for (MessageExt m : ml) {
            arr.add(seen(m));
        }
        d.put("messages", arr);
        // to be delivered by whoever has the store next
        long now = System.currentTimeMillis();
        Message dl = new Message(late, "T", "lv", utf("level"));
        dl.setDelayTimeLevel(5); // one minute
        pr.send(dl);
        if (!skip.contains("timer")) {
            Message tm = new Message(late, "T", "tm", utf("timer"));
            tm.setDeliverTimeMs(now + 60_000);
            pr.send(tm);
        }
        d.put("skip", new ArrayList<>(skip));
        d.put("due", now + 60_000);
        for (int i = 0; i < 9; i++) {
            pr.send(new Message(fifo, "T", "k" + i, utf("f" + i)), (l, m, arg) -> l.get((Integer) arg % l.size()), i);
        }
        d.put("txProducerGroup", p + "_txgroup");
        Thread.sleep(6000); // the broker writes offsets every five seconds
        if (!skip.contains("tx")) {
            tp.shutdown();
        }
        pr.shutdown();
        return d;
    }

    static void checkAll(Ctx c, JSONObject d) throws Exception {
        boolean noTx = d.containsKey("skip") && d.getJSONArray("skip").contains("tx"), noTimer = d.containsKey("skip") && d.getJSONArray("skip").contains("timer");
        String p = d.getString("prefix"), many = p + "_many", one = p + "_one", tx = p + "_tx", late = p + "_late";
        Map<String, JSONObject> want = new TreeMap<>();
        for (Object o : d.getJSONArray("messages")) {
            JSONObject j = (JSONObject) o;
            want.put(j.getString("topic") + "/" + j.get("q") + "/" + j.get("off"), j);
        }
        c.await("routes", 40, () -> {
            try {
                return c.admin().examineTopicRouteInfo(many).getQueueDatas().size() > 0 && c.admin().examineTopicRouteInfo(late).getQueueDatas().size() > 0;
            } catch (Exception e) {
                return false;
            }
        });
        Ctx.Got[] lateGot = new Ctx.Got[1];
        try {
            c.admin().createAndUpdateSubscriptionGroupConfig(c.master(), group("late" + p));
            lateGot[0] = c.pushTo("late" + p, late, "*");
        } catch (Throwable t) {
            // shows below
        }
        check("files_messages", () -> {
            List<MessageExt> l = new ArrayList<>();
            for (String t : new String[] {many, one}) {
                l.addAll(c.drain(t));
            }
            for (MessageExt m : c.drain(tx)) {
                if (str(m.getBody()).startsWith("yes")) {
                    l.add(m);
                }
            }
            eq(want.size(), l.size(), "messages");
            for (MessageExt m : l) {
                JSONObject w = want.get(m.getTopic() + "/" + m.getQueueId() + "/" + m.getQueueOffset());
                ok(w != null, "unexpected " + m);
                JSONObject got = JSON.parseObject(seen(m).toString());
                for (String k : w.keySet()) {
                    eq(String.valueOf(w.get(k)), String.valueOf(got.get(k)), k + " of " + m.getTopic() + "/" + m.getQueueId() + "/" + m.getQueueOffset());
                }
            }
        });
        check("files_offsets", () -> {
            DefaultMQPullConsumer s = c.pull(c.group());
            for (MessageQueue q : s.fetchSubscribeMessageQueues(many)) {
                eq(0, s.minOffset(q), "min offset");
                eq(75, s.maxOffset(q), "max offset of queue " + q.getQueueId());
                eq(new long[] {75, 50, 10, 0}[q.getQueueId()],
                    c.admin().examineConsumeStats(p + "_g1", many).getOffsetTable().get(q).getConsumerOffset(), "consumer offset in queue " + q.getQueueId());
            }
            eq(0, c.admin().examineConsumeStats(p + "_g2", one).computeTotalDiff(), "lag of the group that had all");
        });
        check("files_topic_and_group_settings", () -> {
            TopicConfig t = c.admin().examineTopicConfig(c.master(), p + "_fifo");
            eq(3, t.getWriteQueueNums(), "queues");
            eq("FIFO", t.getAttributes().get("message.type"), "message type");
            t = c.admin().examineTopicConfig(c.master(), p + "_readonly");
            eq(4, t.getPerm(), "perm");
            eq(7, t.getReadQueueNums(), "queues of the read-only topic");
            SubscriptionGroupConfig g = c.admin().examineSubscriptionGroupConfig(c.master(), p + "_g1");
            eq(7, g.getRetryMaxTimes(), "retries");
            ok(g.isConsumeMessageOrderly(), "orderly");
        });
        check("files_query_by_key", () -> {
            for (int i : new int[] {0, 7, 150, 299}) {
                List<MessageExt> l = byKey(c, many, p + "key" + i);
                eq(1, l.size(), "messages with key " + i);
                eq("m" + i, str(l.get(0).getBody()), "body");
            }
            eq(30, byKey(c, many, "common4").size(), "messages with the common key");
            eq(1, byKey(c, one, p + "zipped").size(), "the zipped one");
        });
        check("files_query_by_id", () -> {
            JSONObject w = want.get(many + "/2/10");
            MessageExt m = c.admin().viewMessage(many, w.getString("id"));
            eq(w.getString("body"), str(m.getBody()), "by unique id");
            String[] ha = c.master().split(":");
            String id = MessageDecoder.createMessageId(new java.net.InetSocketAddress(ha[0], Integer.parseInt(ha[1])), w.getLongValue("phy"));
            eq(w.getString("body"), str(c.admin().viewMessage(many, id).getBody()), "by commit log offset");
        });
        check("files_search_by_time", () -> {
            DefaultMQPullConsumer s = c.pull(c.group());
            for (MessageQueue q : s.fetchSubscribeMessageQueues(many)) {
                JSONObject w = want.get(many + "/" + q.getQueueId() + "/40");
                long off = s.searchOffset(q, w.getLongValue("store"));
                long ts = want.get(many + "/" + q.getQueueId() + "/" + off).getLongValue("store");
                eq(w.getLongValue("store"), ts, "store time at the offset found in queue " + q.getQueueId());
                ok(off == 0 || want.get(many + "/" + q.getQueueId() + "/" + (off - 1)).getLongValue("store") < ts, "the first of that time");
            }
        });
        check("files_tag_filter", () -> {
            Ctx.Got g = c.pushTo(c.group(), many, "T1");
            g.awaitCount(100, 40);
            Thread.sleep(500);
            eq(100, g.size(), "messages with tag T1");
        });
        check("files_group_goes_on", () -> {
            Ctx.Got g = c.pushTo(p + "_g1", many, "*");
            g.awaitCount(165, 40);
            Thread.sleep(1000);
            eq(165, g.bodies().size(), "messages the group had not read yet");
        });
        check("files_append_goes_on", () -> {
            DefaultMQProducer pr = c.producer();
            long last = 0;
            for (JSONObject w : want.values()) {
                last = Math.max(last, w.getLongValue("phy"));
            }
            for (MessageQueue q : pr.fetchPublishMessageQueues(many)) {
                SendResult r = pr.send(new Message(many, "new", "newkey" + p, utf("new")), q);
                eq(75, r.getQueueOffset(), "queue offset of the next message in queue " + q.getQueueId());
                ok(MessageDecoder.decodeMessageId(r.getOffsetMsgId()).getOffset() > last, "commit log offset goes on");
            }
            c.await("the new key", 20, () -> byKey(c, many, "newkey" + p).size() == 4);
        });
        if (!noTx) check("files_open_transaction_checked", () -> {
            List<String> asked = new CopyOnWriteArrayList<>();
            TransactionMQProducer t = c.txProducer();
            t.setProducerGroup(d.getString("txProducerGroup"));
            t.setTransactionListener(new TransactionListener() {
                public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }

                public LocalTransactionState checkLocalTransaction(MessageExt m) {
                    asked.add(str(m.getBody()));
                    return LocalTransactionState.COMMIT_MESSAGE;
                }
            });
            t.start();
            t.sendMessageInTransaction(new Message(tx, "T", "hello", utf("hello")), null);
            c.await("the open transaction is asked about and its message comes", 120, () -> asked.contains("open0") && Ctx.bodies(c.drain(tx)).contains("open0"));
            Set<String> b = Ctx.bodies(c.drain(tx));
            ok(!b.contains("no0") && !b.contains("no1"), "rolled back ones: " + b);
        });
        check("files_delayed_delivered", () -> {
            ok(lateGot[0] != null, "consumer");
            long due = d.getLongValue("due");
            int secs = (int) Math.max(30, (due - System.currentTimeMillis()) / 1000 + 40);
            lateGot[0].awaitBodies(noTimer ? Set.of("level") : Set.of("level", "timer"), secs);
            for (int i = 0; i < lateGot[0].size(); i++) {
                ok(lateGot[0].at.get(i) >= due - 1500, str(lateGot[0].list().get(i).getBody()) + " came early");
            }
            eq(noTimer ? 1 : 2, lateGot[0].size(), "deliveries");
        });
        c.close();
    }

    static SubscriptionGroupConfig group(String g) {
        SubscriptionGroupConfig s = new SubscriptionGroupConfig();
        s.setGroupName(g);
        return s;
    }

    static List<MessageExt> byKey(Ctx c, String t, String k) throws Exception {
        try {
            return c.admin().queryMessage(t, k, 64, 0, System.currentTimeMillis() + 60_000).getMessageList();
        } catch (org.apache.rocketmq.client.exception.MQClientException e) {
            return new ArrayList<>();
        }
    }
}
