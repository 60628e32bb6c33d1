import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/** Pops with the calls of Apache's own client: PopClient NAMESRV BROKER TOPIC. Prints `ok` at the end, or throws. */
public class PopClient {
    static final String GROUP = "JavaPop";
    static MQClientAPIImpl api;
    static String broker;
    static String topic;

    public static void main(String[] args) throws Exception {
        broker = args[1];
        topic = args[2];
        DefaultMQProducer producer = new DefaultMQProducer("JavaPopProducer");
        producer.setNamesrvAddr(args[0]);
        producer.setMqClientApiTimeout(30_000);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        api = producer.getDefaultMQProducerImpl().getmQClientFactory().getMQClientAPIImpl();
        try {
            for (int i = 0; i < 8; i++) {
                producer.send(new Message(topic, "TagA", "key" + i, ("m" + i).getBytes()));
            }
            unordered();
            ordered();
        } finally {
            // Its threads would keep a program that failed from ending.
            producer.shutdown();
        }
        System.out.println("ok");
    }

    static void unordered() throws Exception {
        Map<String, MessageExt> popped = new HashMap<>();
        long end = System.currentTimeMillis() + 30_000;
        while (popped.size() < 8 && System.currentTimeMillis() < end) {
            for (MessageExt message : pop(GROUP, 32, 12_000, 1_000, false)) {
                require(popped.put(body(message), message) == null, "given twice: " + message);
                require(message.getReconsumeTimes() == 0, "delivered before: " + message);
            }
        }
        require(popped.size() == 8, "popped only " + popped.keySet());
        for (int i = 0; i < 3; i++) {
            acknowledge(popped.get("m" + i).getProperty("POP_CK"), popped.get("m" + i));
        }
        List<String> handles = new ArrayList<>();
        for (int i = 3; i < 6; i++) {
            handles.add(popped.get("m" + i).getProperty("POP_CK"));
        }
        Map<String, List<String>> byQueue = new HashMap<>();
        for (String handle : handles) {
            byQueue.computeIfAbsent(handle.split(" ")[6], queue -> new ArrayList<>()).add(handle);
        }
        for (List<String> together : byQueue.values()) {
            CompletableFuture<AckResult> done = new CompletableFuture<>();
            api.batchAckMessageAsync(broker, 20_000, into(done), topic, GROUP, together);
            require(done.get(30, TimeUnit.SECONDS).getStatus() == AckStatus.OK, "batch ack of " + together);
        }
        String later = hide(popped.get("m6"), 45_000);
        // m7 is left alone.
        TreeSet<String> again = new TreeSet<>();
        end = System.currentTimeMillis() + 35_000;
        while (again.isEmpty() && System.currentTimeMillis() < end) {
            for (MessageExt message : pop(GROUP, 32, 60_000, 1_000, false)) {
                again.add(body(message));
                require(message.getReconsumeTimes() == 1, "not counted: " + message);
                require(message.getTopic().equals(topic), "of the topic " + message.getTopic());
                String handle = message.getProperty("POP_CK");
                String stored = ExtraInfoUtil.getRealTopic(ExtraInfoUtil.split(handle), topic, GROUP);
                acknowledge(handle, stored, message.getQueueOffset());
            }
        }
        require(again.toString().equals("[m7]"), "came again: " + again);
        acknowledge(later, popped.get("m6"));
    }

    static void ordered() throws Exception {
        String group = GROUP + "Order";
        List<MessageExt> first = pop(group, 1, 60_000, 1_000, true);
        require(first.size() == 1, "first batch " + first);
        MessageExt message = first.get(0);
        int queueId = message.getQueueId();
        // A pop may pass over a queue that somebody else looks at: only an empty one tells that all are blocked.
        for (List<MessageExt> others; !(others = pop(group, 32, 60_000, 500, true)).isEmpty(); ) {
            for (MessageExt other : others) {
                require(other.getQueueId() != queueId, "overtaken: " + other);
            }
        }
        AckMessageRequestHeader header = header(message.getProperty("POP_CK"), topic, message.getQueueOffset());
        header.setConsumerGroup(group);
        acknowledge(header);
        for (MessageExt next : pop(group, 32, 60_000, 5_000, true)) {
            require(next.getQueueId() == queueId, "blocked queues are blocked: " + next);
            require(next.getQueueOffset() == message.getQueueOffset() + 1, "not the next one: " + next);
            break;
        }
    }

    static List<MessageExt> pop(String group, int most, long invisible, long poll, boolean order) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(-1);
        header.setMaxMsgNums(most);
        header.setInvisibleTime(invisible);
        header.setPollTime(poll);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(order);
        CompletableFuture<PopResult> done = new CompletableFuture<>();
        api.popMessageAsync("broker-a", broker, header, 20_000, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                done.completeExceptionally(e);
            }
        });
        PopResult result = done.get(30, TimeUnit.SECONDS);
        return result.getPopStatus() == PopStatus.FOUND ? result.getMsgFoundList() : List.of();
    }

    static String hide(MessageExt message, long invisible) throws Exception {
        String handle = message.getProperty("POP_CK");
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(GROUP);
        header.setTopic(topic);
        header.setQueueId(message.getQueueId());
        header.setOffset(message.getQueueOffset());
        header.setExtraInfo(handle);
        header.setInvisibleTime(invisible);
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.changeInvisibleTimeAsync("broker-a", broker, header, 20_000, into(done));
        AckResult result = done.get(30, TimeUnit.SECONDS);
        require(result.getStatus() == AckStatus.OK, "the time was not changed");
        return result.getExtraInfo();
    }

    static void acknowledge(String handle, MessageExt message) throws Exception {
        acknowledge(handle, topic, message.getQueueOffset());
    }

    static void acknowledge(String handle, String stored, long offset) throws Exception {
        acknowledge(header(handle, stored, offset));
    }

    static AckMessageRequestHeader header(String handle, String stored, long offset) {
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(GROUP);
        header.setTopic(stored);
        header.setQueueId(ExtraInfoUtil.getQueueId(ExtraInfoUtil.split(handle)));
        header.setOffset(offset);
        header.setExtraInfo(handle);
        return header;
    }

    static void acknowledge(AckMessageRequestHeader header) throws Exception {
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.ackMessageAsync(broker, 20_000, into(done), header);
        require(done.get(30, TimeUnit.SECONDS).getStatus() == AckStatus.OK, "ack of " + header.getExtraInfo());
    }

    static AckCallback into(CompletableFuture<AckResult> done) {
        return new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                done.completeExceptionally(e);
            }
        };
    }

    static String body(MessageExt message) {
        return new String(message.getBody());
    }

    static void require(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
