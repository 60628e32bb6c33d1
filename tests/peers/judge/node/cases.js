// Cases of RocketMQ 5's Node.js client: ENDPOINTS RUN, with topics of the name RUN and a kind. One line a case.
'use strict';
const { Producer, SimpleConsumer, PushConsumer, ConsumeResult } = require('rocketmq-client-nodejs');

const [endpoints, run] = process.argv.slice(2);
const logger = { info() {}, debug() {}, warn() {}, error() {}, close() {} };
const common = { endpoints, namespace: '', logger };
const limitMs = 60000;

function expect(found, wanted, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
}

async function producing(work, options = {}) {
  const producer = new Producer({ ...common, maxAttempts: 3, ...options });
  await producer.startup();
  try {
    return await work(producer);
  } finally {
    await producer.shutdown();
  }
}

/** What a push consumer gets, until `count` messages were consumed; `handle(message, deliveries)` may refuse one. */
async function pushed(topic, count, handle, meanwhile) {
  const got = [];
  const deliveries = new Map();
  let done;
  const all = new Promise((resolve, reject) => {
    done = resolve;
    setTimeout(() => reject(new Error(`${got.length} of ${count} messages within ${limitMs} ms`)), limitMs).unref();
  });
  const consumer = new PushConsumer({
    ...common,
    consumerGroup: topic,
    subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(message) {
        const body = message.body.toString();
        deliveries.set(body, (deliveries.get(body) || 0) + 1);
        if (!handle(message, deliveries.get(body))) return ConsumeResult.FAILURE;
        got.push(body);
        if (got.length === count) done();
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  try {
    await meanwhile();
    await all;
    return { got, deliveries };
  } finally {
    await consumer.shutdown();
  }
}

const cases = {
  async node_send_receive_ack() {
    const topic = `${run}Normal`;
    const receipt = await producing(producer =>
      producer.send({ topic, tag: 'a', keys: ['k1', 'k2'], properties: new Map([['p', 'v']]), body: Buffer.from('one') }));
    const consumer = new SimpleConsumer({
      ...common, consumerGroup: topic, subscriptions: new Map([[topic, 'a || b']]), awaitDuration: 10000,
    });
    await consumer.startup();
    try {
      let messages = [];
      while (messages.length === 0) messages = await consumer.receive(10, 15000);
      const [message] = messages;
      expect([message.body.toString(), message.messageId, message.tag], ['one', receipt.messageId, 'a'], 'message');
      expect([...message.keys], ['k1', 'k2'], 'keys');
      expect(message.properties.get('p'), 'v', 'property');
      await consumer.ack(message);
    } finally {
      await consumer.shutdown();
    }
  },
  async node_push_consumer() {
    const topic = `${run}Pushed`;
    const bodies = [...Array(20).keys()].map(String);
    const { got } = await pushed(topic, 20, () => true, () =>
      producing(async producer => {
        for (const body of bodies) await producer.send({ topic, body: Buffer.from(body) });
      }));
    expect(got.sort(), bodies.sort(), 'messages');
  },
  async node_push_retry() {
    const topic = `${run}Retried`;
    const { deliveries } = await pushed(topic, 1, (message, count) => count > 1, () =>
      producing(producer => producer.send({ topic, body: Buffer.from('again') })));
    expect(deliveries.get('again'), 2, 'deliveries');
  },
  async node_fifo() {
    const topic = `${run}Fifo`;
    const bodies = [...Array(10).keys()].map(String);
    const { got } = await pushed(topic, 10, () => true, () =>
      producing(async producer => {
        for (const body of bodies) await producer.send({ topic, messageGroup: 'g', body: Buffer.from(body) });
      }));
    expect(got, bodies, 'order');
  },
  async node_delay() {
    const topic = `${run}Delayed`;
    let sent;
    await pushed(topic, 1, () => true, () =>
      producing(producer => {
        sent = Date.now();
        return producer.send({ topic, delay: 2000, body: Buffer.from('later') });
      }));
    if (Date.now() - sent < 2000) throw new Error(`after ${Date.now() - sent} ms`);
  },
  async node_recall() {
    const topic = `${run}Delayed`;
    await producing(async producer => {
      const receipt = await producer.send({ topic, delay: 600000, body: Buffer.from('never') });
      if (!receipt.recallHandle) throw new Error('no handle');
      await producer.recallMessage(topic, receipt.recallHandle);
    });
  },
  async node_transactions() {
    const topic = `${run}Half`;
    const { got } = await pushed(topic, 1, () => true, () =>
      producing(async producer => {
        const rolledBack = producer.beginTransaction();
        await producer.send({ topic, body: Buffer.from('no') }, rolledBack);
        await rolledBack.rollback();
        const committed = producer.beginTransaction();
        await producer.send({ topic, body: Buffer.from('yes') }, committed);
        await committed.commit();
      }, { topic, checker: { async check() { return 0; } } }));
    expect(got, ['yes'], 'messages');
  },
  async node_unknown_topic_refused() {
    const error = await producing(producer => producer.send({ topic: `${run}Nobody`, body: Buffer.from('x') }))
      .then(() => undefined, found => found);
    if (!error) throw new Error('it was taken');
    expect(error.code, 40402, 'code');
  },
};

(async () => {
  await Promise.all(Object.entries(cases).map(async ([name, test]) => {
    try {
      await Promise.race([test(), new Promise((_, reject) => {
        setTimeout(() => reject(new Error(`not over within ${limitMs} ms`)), limitMs).unref();
      })]);
      console.log(`PASS ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}: ${String(error && error.stack || error).replace(/\s+/g, ' ')}`);
    }
  }));
  process.exit(0);
})();
