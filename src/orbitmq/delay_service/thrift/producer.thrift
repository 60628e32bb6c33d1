// The interface that DDMQ's producers speak: framed transport, compact protocol. All times are seconds.

struct Message {
  1: string topic
  2: string key
  3: string value
  4: i64 hashId
  5: string tags
  6: i32 partitionId = -1
  7: optional binary body
  8: optional string version
  9: optional map<string, string> properties
}

struct Result {
  1: i32 code
  2: string msg
  3: optional string key
}

struct DelayMessage {
  1: string topic
  2: optional string uniqDelayMsgId
  3: optional binary body
  4: string tags
  5: i32 action
  6: optional i64 timestamp
  7: optional i32 dmsgtype
  8: optional i64 interval
  9: optional i64 expire
  10: optional i64 times
  11: optional string uuid
  13: optional string version
  14: optional map<string, string> properties
}

struct DelayResult {
  1: i32 code
  2: string msg
  3: string uniqDelayMsgId
}

service ProducerService {
  Result sendSync(1: Message message, 2: i64 timeout)
  Result sendBatchSync(1: list<Message> messages)
  Result sendAsync(1: Message message)
  DelayResult sendDelaySync(1: DelayMessage message, 2: i64 timeout)
}
