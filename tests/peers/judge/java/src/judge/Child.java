package judge;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A consumer in a process of its own, to be killed: prints "QUEUE OFFSET BODY" per message. */
public final class Child {
    public static void main(String[] a) throws Exception {
        Env env = new Env(a[0]);
        DefaultMQPushConsumer s = new DefaultMQPushConsumer(a[2], env.hook(), new AllocateMessageQueueAveragely());
        s.setNamesrvAddr(a[0]);
        s.setInstanceName("child" + System.nanoTime());
        s.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        s.subscribe(a[3], "*");
        s.registerMessageListener((MessageListenerOrderly) (l, x) -> {
            for (MessageExt m : l) {
                synchronized (System.out) {
                    System.out.println(m.getQueueId() + " " + m.getQueueOffset() + " " + Ctx.str(m.getBody()));
                    System.out.flush();
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        s.start();
        Thread.sleep(600_000);
    }
}
