import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAccumulator;

/** Latencies in buckets that are 1/16 of a power of two wide, and the longest one as it was. */
final class Latency {
    private final AtomicLongArray buckets = new AtomicLongArray(64 * 16);
    private final LongAccumulator longest = new LongAccumulator(Math::max, 0);

    void add(long nanos) {
        int exponent = 63 - Long.numberOfLeadingZeros(Math.max(nanos, 16));
        buckets.incrementAndGet(exponent * 16 + (int) ((nanos >> (exponent - 4)) & 15));
        longest.accumulate(nanos);
    }

    void clear() {
        for (int i = 0; i < buckets.length(); i++) {
            buckets.set(i, 0);
        }
        longest.reset();
    }

    /** In ns; the lower edge of the bucket. */
    double quantile(double share) {
        long total = 0;
        for (int i = 0; i < buckets.length(); i++) {
            total += buckets.get(i);
        }
        long rank = (long) (total * share);
        for (int i = 0; i < buckets.length(); i++) {
            rank -= buckets.get(i);
            if (rank < 0) {
                return (double) (1L << (i / 16)) * (1 + (i % 16) / 16.0);
            }
        }
        return 0;
    }

    long longest() {
        return longest.get();
    }
}
