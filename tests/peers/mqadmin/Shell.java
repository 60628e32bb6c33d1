import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * mqadmin without a new JVM for each command. Reads one command per line, its words joined by 0x1f; answers each
 * with a line of two base64 texts, what went to the output and to the error stream.
 *
 * Words that begin with @ are not mqadmin's: clients that stay while mqadmin looks at them.
 */
public final class Shell {
    private static final PrintStream ANSWERS = System.out;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    private static final Map<String, AtomicInteger> SEEN = new HashMap<>();
    private static final Map<String, List<String>> HEARD = new HashMap<>();

    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            List<String> words = new ArrayList<>(Arrays.asList(line.split("\u001f", -1)));
            ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
            PrintStream stdout = System.out, stderr = System.err;
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            try {
                if (words.get(0).startsWith("@")) {
                    own(namesrv, words);
                } else {
                    words.addAll(1, Arrays.asList("-n", namesrv));
                    MQAdminStartup.main0(words.toArray(new String[0]), null);
                }
            } catch (Throwable t) {
                t.printStackTrace();
            } finally {
                System.out.flush();
                System.err.flush();
                System.setOut(stdout);
                System.setErr(stderr);
            }
            Base64.Encoder text = Base64.getEncoder();
            ANSWERS.println(text.encodeToString(out.toByteArray()) + " " + text.encodeToString(err.toByteArray()));
            ANSWERS.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void own(String namesrv, List<String> words) throws Exception {
        switch (words.get(0)) {
            case "@commands":
                commands();
                break;
            case "@send":
                send(namesrv, words.get(1), words.get(2), Integer.parseInt(words.get(3)));
                break;
            case "@consume":
                consume(namesrv, words.get(1), words.get(2), words.get(3), Integer.parseInt(words.get(4)));
                break;
            case "@until":
                until(namesrv, words.get(1), words.subList(2, words.size()));
                break;
            case "@reply":
                reply(namesrv, words.get(1), words.get(2), words.get(3));
                break;
            case "@request":
                request(namesrv, words.get(1), words.get(2), words.get(3), words.get(4));
                break;
            case "@namespaced":
                namespaced(namesrv, words.get(1), words.get(2), words.get(3), words.get(4), Integer.parseInt(words.get(5)));
                break;
            case "@traced":
                traced(namesrv, words.get(1), words.get(2), words.get(3), Integer.parseInt(words.get(4)));
                break;
            case "@listen":
                listen(namesrv, words.get(1), words.get(2), words.get(3), Integer.parseInt(words.get(4)), words.size() > 5 ? words.get(5) : "*");
                break;
            case "@heard":
                heard(words.get(1), Integer.parseInt(words.get(2)), Integer.parseInt(words.get(3)));
                break;
            case "@fill":
                fill(namesrv, words.get(1), words.get(2), Integer.parseInt(words.get(3)));
                break;
            case "@refresh":
                CONSUMERS.get(words.get(1)).getDefaultMQPushConsumerImpl().getmQClientFactory()
                    .updateTopicRouteInfoFromNameServer(words.get(2));
                break;
            case "@leave":
                CONSUMERS.remove(words.get(1)).shutdown();
                break;
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    /** One of mqadmin's commands that never end, until its output holds a pattern. */
    private static void until(String namesrv, String pattern, List<String> words) throws Exception {
        List<String> command = new ArrayList<>(words);
        command.addAll(1, Arrays.asList("-n", namesrv));
        PrintStream outer = System.out;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        Thread runner = new Thread(() -> MQAdminStartup.main0(command.toArray(new String[0]), null));
        runner.setDaemon(true);
        runner.start();
        long deadline = System.currentTimeMillis() + 60_000;
        while (!java.util.regex.Pattern.compile(pattern).matcher(out.toString("UTF-8")).find() && runner.isAlive()
            && System.currentTimeMillis() < deadline) {
            Thread.sleep(20);
        }
        runner.interrupt();
        runner.join(10_000);
        System.setOut(outer);
        System.out.print(out.toString("UTF-8"));
    }

    /** Its usual time limits are too short for a machine that does much else. */
    private static DefaultMQProducer patient(DefaultMQProducer producer, String namesrv) {
        producer.setNamesrvAddr(namesrv);
        producer.setMqClientApiTimeout(30_000);
        producer.setSendMsgTimeout(30_000);
        return producer;
    }

    private static DefaultMQPushConsumer patient(DefaultMQPushConsumer consumer, String namesrv) {
        consumer.setNamesrvAddr(namesrv);
        consumer.setMqClientApiTimeout(30_000);
        return consumer;
    }

    /** Every subcommand that this release of mqadmin knows. */
    @SuppressWarnings("unchecked")
    private static void commands() throws Exception {
        MQAdminStartup.initCommand();
        java.lang.reflect.Field field = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        field.setAccessible(true);
        for (SubCommand command : (List<SubCommand>) field.get(null)) {
            System.out.println(command.commandName());
        }
    }

    /** Sends messages to the queues in turn, with a producer that stays; prints unique and offset ids. */
    private static void send(String namesrv, String group, String topic, int count) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(group);
        if (producer == null) {
            producer = patient(new DefaultMQProducer(group), namesrv);
            producer.setHeartbeatBrokerInterval(500);
            producer.start();
            PRODUCERS.put(group, producer);
        }
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        for (int i = 0; i < count; i++) {
            byte[] body = ("hello" + i).getBytes(StandardCharsets.UTF_8);
            SendResult result = producer.send(new Message(topic, "TagA", topic + "_k" + i, body), queues.get(i % queues.size()));
            System.out.println(result.getMsgId() + " " + result.getOffsetMsgId());
        }
    }

    /**
     * A consumer that stays: ordered, concurrently, broadcasting, or with heartbeats of version 2. It fails every message whose body begins with
     * "bad", and gives up at once those that begin with "dead".
     */
    private static void listen(String namesrv, String how, String group, String topic, int maxReconsumeTimes, String tags)
        throws Exception {
        DefaultMQPushConsumer consumer = patient(new DefaultMQPushConsumer(group), namesrv);
        List<String> heard = java.util.Collections.synchronizedList(new ArrayList<>());
        HEARD.put(group, heard);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(maxReconsumeTimes);
        consumer.setHeartbeatBrokerInterval(500);
        consumer.subscribe(topic, tags);
        consumer.setUseHeartbeatV2(how.equals("v2"));
        if (how.equals("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (how.equals("ordered")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                context.setSuspendCurrentQueueTimeMillis(1000);
                boolean bad = note(heard, messages.get(0)).startsWith("bad");
                return bad ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                String body = note(heard, messages.get(0));
                context.setDelayLevelWhenNextConsume(body.startsWith("dead") ? -1 : 1);
                boolean good = !body.startsWith("bad") && !body.startsWith("dead");
                return good ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        CONSUMERS.put(group, consumer);
    }

    private static String note(List<String> heard, MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        heard.add(System.currentTimeMillis() + " " + body + " " + message.getReconsumeTimes() + " " + message.getTopic()
            + " " + message.getBrokerName() + " " + message.getQueueId() + " " + message.getQueueOffset());
        return body;
    }

    /** Sends messages to each queue that the route of now has; prints its broker's name, its number, its range. */
    private static void fill(String namesrv, String group, String topic, int count) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(group);
        if (producer == null) {
            producer = patient(new DefaultMQProducer(group), namesrv);
            producer.start();
            PRODUCERS.put(group, producer);
        }
        producer.getDefaultMQProducerImpl().getmQClientFactory().updateTopicRouteInfoFromNameServer(topic);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        queues.sort(java.util.Comparator.naturalOrder());
        for (MessageQueue queue : queues) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                Message message = new Message(topic, (queue.getQueueId() + "-" + i).getBytes(StandardCharsets.UTF_8));
                SendResult result = producer.send(message, queue);
                if (result.getMessageQueue().getQueueId() != queue.getQueueId()) {
                    throw new IllegalStateException(result.toString());
                }
                batch.add(new Message(topic, (queue.getQueueId() + "-batch").getBytes(StandardCharsets.UTF_8)));
            }
            long end = producer.send(batch, queue).getQueueOffset() + count;
            for (int i = 0; i < 100 && producer.maxOffset(queue) < end; i++) {
                Thread.sleep(50); // Apache's brokers show a message a moment after its answer.
            }
            long earliest = -1;
            for (int i = 0; i < 100 && earliest < 0; i++) {
                try {
                    earliest = producer.earliestMsgStoreTime(queue);
                } catch (org.apache.rocketmq.client.exception.MQClientException e) {
                    Thread.sleep(100); // Apache's broker asks itself, and learns its own address some time after its start.
                }
            }
            System.out.println(queue.getBrokerName() + " " + queue.getQueueId() + " " + producer.minOffset(queue) + " "
                + producer.maxOffset(queue) + " " + producer.searchOffset(queue, 1)
                + " " + producer.searchOffset(queue, System.currentTimeMillis() + 1000) + " " + earliest);
        }
    }

    /** Prints what a consumer has heard (ms, body, reconsume times, topic, place), once it is so much or the time is over. */
    private static void heard(String group, int count, int limitMillis) throws Exception {
        List<String> heard = HEARD.get(group);
        long deadline = System.currentTimeMillis() + limitMillis;
        while (heard.size() < count && System.currentTimeMillis() < deadline) {
            Thread.sleep(20);
        }
        new ArrayList<>(heard).forEach(System.out::println);
    }

    /** A consumer that answers requests with "re: " and their body; returns once it has its queues. */
    private static void reply(String namesrv, String group, String topic, String tag) throws Exception {
        DefaultMQProducer replies = patient(new DefaultMQProducer(group + "-replies"), namesrv);
        replies.start();
        DefaultMQPushConsumer consumer = patient(new DefaultMQPushConsumer(group), namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tag);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                byte[] body = ("re: " + new String(messages.get(0).getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                Message answer = MessageUtil.createReplyMessage(messages.get(0), body);
                answer.setBody(body);
                replies.send(answer);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(group, consumer);
        long deadline = System.currentTimeMillis() + 60_000;
        while (consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .noneMatch(queue -> queue.getTopic().equals(topic)) && System.currentTimeMillis() < deadline) {
            Thread.sleep(50);
        }
    }

    /** Prints the reply to a request. */
    private static void request(String namesrv, String group, String topic, String tag, String body) throws Exception {
        DefaultMQProducer producer = patient(new DefaultMQProducer(group), namesrv);
        producer.start();
        try {
            Message message = new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
            System.out.println(new String(producer.request(message, 30_000).getBody(), StandardCharsets.UTF_8));
        } finally {
            producer.shutdown();
        }
    }

    /** Sends one message in a namespace, and prints topic and body of all that a new group gets there. */
    private static void namespaced(String namesrv, String namespace, String group, String topic, String body, int count) throws Exception {
        DefaultMQProducer producer = patient(new DefaultMQProducer(namespace, group + "-producer"), namesrv);
        producer.start();
        producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
        List<String> heard = java.util.Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = patient(new DefaultMQPushConsumer(namespace, group), namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> heard.add(message.getTopic() + " " + new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long deadline = System.currentTimeMillis() + 60_000;
        while (heard.size() < count && System.currentTimeMillis() < deadline) {
            Thread.sleep(50);
        }
        consumer.shutdown();
        producer.shutdown();
        heard.forEach(System.out::println);
    }

    /** Sends and consumes so many messages with message trace on; the first one is taken at the second attempt. */
    private static void traced(String namesrv, String traceTopic, String group, String topic, int count) throws Exception {
        DefaultMQProducer producer = patient(new DefaultMQProducer(group + "-producer", true, traceTopic), namesrv);
        producer.start();
        for (int n = 0; n < count; n++) {
            SendResult sent = producer.send(new Message(topic, "java", "java-" + n, ("body " + n).getBytes(StandardCharsets.UTF_8)));
            System.out.println(sent.getMsgId());
        }
        AtomicInteger taken = new AtomicInteger();
        DefaultMQPushConsumer consumer = patient(new DefaultMQPushConsumer(group, true, traceTopic), namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "java");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            if (message.getReconsumeTimes() == 0 && "java-0".equals(message.getKeys())) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            taken.incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long deadline = System.currentTimeMillis() + 90_000;
        while (taken.get() < count && System.currentTimeMillis() < deadline) {
            Thread.sleep(50);
        }
        consumer.shutdown();
        producer.shutdown();
    }

    /** A consumer that stays; returns once it has had so many messages and the broker knows how far it is. */
    private static void consume(String namesrv, String group, String topic, String expression, int count) throws Exception {
        DefaultMQPushConsumer consumer = patient(new DefaultMQPushConsumer(group), namesrv);
        AtomicInteger seen = new AtomicInteger();
        SEEN.put(group, seen);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(500);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            seen.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(group, consumer);
        long deadline = System.currentTimeMillis() + 60_000;
        while (seen.get() < count && System.currentTimeMillis() < deadline) {
            Thread.sleep(50);
        }
        if (seen.get() < count) {
            throw new IllegalStateException("had " + seen.get() + " of " + count + " messages");
        }
        consumer.getDefaultMQPushConsumerImpl().getOffsetStore().persistAll(
            consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet());
        Thread.sleep(300);
    }
}
