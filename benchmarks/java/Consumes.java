import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Everything that consumes. Each run is a new group, or several of them. */
final class Consumes implements AutoCloseable {
    private final Load.Args args;
    private final List<DefaultMQPushConsumer> consumers = new ArrayList<>();

    Consumes(Load.Args args) {
        this.args = args;
    }

    private DefaultMQPushConsumer consumer(ConsumeFromWhere where) throws Exception {
        DefaultMQPushConsumer consumer = args.connecting(
            new DefaultMQPushConsumer(args.text("group"), args.signing()));
        consumer.setInstanceName(args.text("group"));
        consumer.setConsumeFromWhere(where);
        consumer.subscribe(args.text("topic"), "*");
        consumers.add(consumer);
        return consumer;
    }

    /** Listens to what comes from now on. */
    void startListening(Consumer<List<MessageExt>> listener) throws Exception {
        DefaultMQPushConsumer consumer = consumer(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            listener.accept(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    /** A group reads "count" messages from the start of a topic; the window opens after "skip" of them. */
    void push(String op) throws Exception {
        Progress progress = new Progress();
        if (op.equals("pop")) {
            setPop();
        }
        DefaultMQPushConsumer consumer = consumer(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(!op.equals("pop"));
        if (op.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                progress.add(messages.size());
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                progress.add(messages.size());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        progress.done.await();
        close();
        Load.say("idle");
    }

    private void setPop() throws Exception {
        DefaultMQAdminExt admin = args.connecting(new DefaultMQAdminExt(args.signing()));
        admin.setInstanceName("admin-" + args.text("group"));
        admin.start();
        admin.setMessageRequestMode(
            args.text("broker"), args.text("topic"), args.text("group"), MessageRequestMode.POP, 0, 5000);
        admin.shutdown();
    }

    /** "groups" groups pull, each in a thread of its own; together they read "count" messages. */
    void pull() throws Exception {
        int groups = args.number("groups");
        int each = (args.number("count") + groups - 1) / groups;
        Progress progress = new Progress();
        List<DefaultMQPullConsumer> pullers = new ArrayList<>();
        for (int i = 0; i < groups; i++) {
            DefaultMQPullConsumer consumer = args.connecting(
                new DefaultMQPullConsumer(args.text("group") + "_" + i, args.signing()));
            consumer.setInstanceName(args.text("group")); // they share connections
            consumer.start();
            pullers.add(consumer);
        }
        Set<MessageQueue> queues = queuesOf(pullers.get(0), args.text("topic"));
        List<Thread> threads = new ArrayList<>();
        for (DefaultMQPullConsumer consumer : pullers) {
            threads.add(Load.start("puller-" + threads.size(), () -> {
                try {
                    pullSome(consumer, queues, each, progress);
                } catch (Exception e) {
                    e.printStackTrace();
                    progress.window.fail(1, e.toString());
                }
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        pullers.forEach(DefaultMQPullConsumer::shutdown);
        if (progress.done.getCount() > 0) {
            throw new IllegalStateException("not all was pulled: " + progress.window.firstError.get());
        }
        Load.say("idle");
    }

    /** The first question of a client may come to nothing on a busy machine. */
    private static Set<MessageQueue> queuesOf(DefaultMQPullConsumer consumer, String topic) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                return consumer.fetchSubscribeMessageQueues(topic);
            } catch (MQClientException e) {
                if (tries == 20) {
                    throw e;
                }
                Load.sleep(250);
            }
        }
    }

    /** A hundred threads that open a connection together may find it closed again. */
    private static PullResult pulled(DefaultMQPullConsumer consumer, MessageQueue queue, long offset) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                return consumer.pull(queue, "*", offset, 32, 30_000);
            } catch (RemotingException e) {
                if (tries == 20) {
                    throw e;
                }
                Load.sleep(250);
            }
        }
    }

    private static void pullSome(
            DefaultMQPullConsumer consumer, Set<MessageQueue> queues, int count, Progress progress) throws Exception {
        Map<MessageQueue, Long> next = new HashMap<>();
        queues.forEach(queue -> next.put(queue, 0L));
        int seen = 0;
        while (!next.isEmpty() && seen < count) {
            for (MessageQueue queue : List.copyOf(next.keySet())) {
                PullResult result = pulled(consumer, queue, next.get(queue));
                next.put(queue, result.getNextBeginOffset());
                if (result.getPullStatus() == PullStatus.FOUND) {
                    seen += result.getMsgFoundList().size();
                    progress.add(result.getMsgFoundList().size());
                } else if (result.getPullStatus() == PullStatus.NO_NEW_MSG) {
                    next.remove(queue);
                }
            }
        }
    }

    @Override
    public void close() {
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        consumers.clear();
    }

    /** Counts up to "count" and keeps the window. */
    private final class Progress {
        final Window window = new Window();
        final CountDownLatch done = new CountDownLatch(1);
        private final int count = args.number("count");
        private final int skip = args.number("skip");
        private final AtomicLong seen = new AtomicLong();
        private volatile boolean isOpen;

        void add(int messages) {
            long now = seen.addAndGet(messages);
            long before = now - messages;
            if (before < skip && now >= skip) {
                window.open();
                isOpen = true;
            }
            if (before < count && now >= count) {
                while (!isOpen) {
                    Thread.onSpinWait();
                }
                window.close(count - skip);
                done.countDown();
            }
        }
    }
}
