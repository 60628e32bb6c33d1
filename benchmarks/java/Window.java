import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;

/**
 * What is counted between "begin" and "end", the lines at which the reader samples the broker's CPU time.
 */
final class Window {
    final LongAdder messages = new LongAdder();
    final LongAdder failed = new LongAdder();
    final AtomicReference<String> firstError = new AtomicReference<>();
    final Latency latency = new Latency();
    private long openedAt;
    private long messagesBefore;
    private long failedBefore;

    void open() {
        latency.clear();
        messagesBefore = messages.sum();
        failedBefore = failed.sum();
        openedAt = System.nanoTime();
        Load.say("begin");
    }

    /** Ends the window; "more" are messages that were counted elsewhere. */
    void close(long more) {
        long took = System.nanoTime() - openedAt;
        report(messages.sum() - messagesBefore + more, took, failed.sum() - failedBefore);
    }

    /** Opens, waits and closes. */
    void measure(int seconds) throws InterruptedException {
        open();
        Thread.sleep(1000L * seconds);
        close(0);
    }

    void fail(int count, String reason) {
        failed.add(count);
        firstError.compareAndSet(null, reason);
    }

    private void report(long count, long tookNanos, long errors) {
        StringBuilder json = new StringBuilder("{\"messages\":").append(count);
        json.append(",\"seconds\":").append(tookNanos / 1e9).append(",\"errors\":").append(errors);
        String error = firstError.get();
        if (error != null) {
            json.append(",\"first_error\":\"");
            json.append(error.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ")).append('"');
        }
        if (latency.longest() > 0) {
            json.append(",\"p50_us\":").append(latency.quantile(0.5) / 1000);
            json.append(",\"p99_us\":").append(latency.quantile(0.99) / 1000);
            json.append(",\"p999_us\":").append(latency.quantile(0.999) / 1000);
            json.append(",\"max_us\":").append(latency.longest() / 1000);
        }
        Load.say("end " + json.append('}'));
    }
}
