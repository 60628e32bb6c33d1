import java.util.ArrayList;
import java.util.List;
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
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Everything that consumes. Each run is a new group, or several of them. */
final class Consumes implements AutoCloseable {
    private final Load.Args args;
    private final List<DefaultMQPushConsumer> consumers = new ArrayList<>();

    Consumes(Load.Args args) {
        this.args = args;
    }

    private DefaultMQPushConsumer consumer(ConsumeFromWhere where) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.text("group"));
        consumer.setNamesrvAddr(args.text("namesrv"));
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
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args.text("namesrv"));
        admin.setInstanceName("admin-" + args.text("group"));
        admin.start();
        admin.setMessageRequestMode(
            args.text("broker"), args.text("topic"), args.text("group"), MessageRequestMode.POP, 0, 5000);
        admin.shutdown();
    }

    /** "groups" groups read the whole topic by pulls, each in a thread of its own. */
    void pull() throws Exception {
        int groups = args.number("groups");
        Progress progress = new Progress();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < groups; i++) {
            DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.text("group") + "_" + i);
            consumer.setNamesrvAddr(args.text("namesrv"));
            consumer.setInstanceName(args.text("group"));
            consumer.start();
            Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(args.text("topic"));
            threads.add(Load.start("puller-" + i, () -> {
                try {
                    pullAll(consumer, queues, progress);
                } catch (Exception e) {
                    e.printStackTrace();
                    progress.window.fail(1, e.toString());
                    progress.done.countDown();
                } finally {
                    consumer.shutdown();
                }
            }));
        }
        progress.done.await();
        for (Thread thread : threads) {
            thread.join();
        }
        Load.say("idle");
    }

    private static void pullAll(DefaultMQPullConsumer consumer, Set<MessageQueue> queues, Progress progress)
            throws Exception {
        List<MessageQueue> left = new ArrayList<>(queues);
        long[] next = new long[left.size()];
        while (!left.isEmpty() && progress.done.getCount() > 0) {
            for (int i = left.size() - 1; i >= 0; i--) {
                PullResult result = consumer.pull(left.get(i), "*", next[i], 32, 30_000);
                next[i] = result.getNextBeginOffset();
                if (result.getPullStatus() == PullStatus.FOUND) {
                    progress.add(result.getMsgFoundList().size());
                } else if (result.getPullStatus() == PullStatus.NO_NEW_MSG) {
                    left.remove(i);
                    System.arraycopy(next, i + 1, next, i, next.length - i - 1);
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
