package io.weirflow.interop;

import com.sun.management.OperatingSystemMXBean;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.checkpoint.channel.ChannelStateWriter;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer.DeserializationResult;
import org.apache.flink.runtime.io.network.api.serialization.SpillingAdaptiveSpanningRecordDeserializer;
import org.apache.flink.runtime.io.network.api.writer.RecordWriter;
import org.apache.flink.runtime.io.network.api.writer.RecordWriterBuilder;
import org.apache.flink.runtime.io.network.partition.ChannelStateHolder;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.consumer.BufferOrEvent;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.jobgraph.IntermediateResultPartitionID;
import org.apache.flink.runtime.plugable.DeserializationDelegate;
import org.apache.flink.runtime.plugable.NonReusingDeserializationDelegate;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Flink as one side of weir bench: one thread that writes records with a RecordWriter, or reads them from a gate.
 *
 * <pre>
 *   send CHANNELS SIZE WARMUP MOST SECONDS            records for as long as it runs
 *   receive CHANNELS SIZE WARMUP MOST SECONDS ADDRESS
 *   ping CHANNELS SIZE WARMUP MOST SECONDS            round trips, each record flushed; the other side's address is a line of standard input
 *   pong CHANNELS SIZE WARMUP MOST SECONDS ADDRESS
 * </pre>
 *
 * It answers {@code ADDR HOST:PORT/PARTITION} where it has a partition, and {@code WARM} after WARMUP seconds of work, or when the
 * compiler has little left to do after that, at the latest after MOST seconds. The next line of standard input opens the window of SECONDS. Then it answers
 * {@code RESULT JSON}, as package measure does, and ends with its standard input, or when its work fails.
 */
public final class Bench {
    private static final PrintStream OUT = System.out;
    private static final int FIELD = 7; // the first word of each record
    private static final int COUNT_EVERY = 256;
    private static final int MOST_TRIPS = 1 << 22;
    // Warm: in so many milliseconds the compiler has worked for fewer than these.
    private static final int QUIET_MS = 2000;
    private static final int COMPILED_MS = 100;

    private final String side;
    private final int channels;
    private final int size;
    private final double warmUp;
    private final double mostWarmUp;
    private final double seconds;
    private final AtomicLong items = new AtomicLong();
    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch told = new CountDownLatch(1);
    private final long[] trips = new long[MOST_TRIPS];
    private final AtomicLong trip = new AtomicLong();

    private final Network network = new Network(null, Kind.PIPELINED);
    private RecordWriter<SerializationDelegate<StreamElement>> writer;
    private final SerializationDelegate<StreamElement> out = new SerializationDelegate<>(serializer());
    private SingleInputGate gate;
    private RecordDeserializer<DeserializationDelegate<StreamElement>>[] deserializers;
    private final DeserializationDelegate<StreamElement> in = new NonReusingDeserializationDelegate<>(serializer());
    private volatile boolean measured;
    private int current = -1; // the channel whose buffer is being read

    private Bench(String[] args) throws Exception {
        side = args[0];
        channels = Integer.parseInt(args[1]);
        size = Integer.parseInt(args[2]);
        warmUp = Double.parseDouble(args[3]);
        mostWarmUp = Double.parseDouble(args[4]);
        seconds = Double.parseDouble(args[5]);
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Bench bench = new Bench(args);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        boolean flushed = bench.side.startsWith("p");
        if (!bench.side.equals("receive")) {
            bench.serve(flushed);
        }
        String address = bench.side.equals("ping") ? lines.readLine() : args.length > 6 ? args[6] : null;
        Thread end =
                new Thread(
                        () -> {
                            try {
                                while (lines.readLine() != null) {
                                    bench.told.countDown();
                                }
                            } catch (Exception e) {
                                e.printStackTrace();
                            }
                            Runtime.getRuntime().halt(0); // whoever started this is gone
                        });
        end.setDaemon(true);
        end.start();
        Thread window = new Thread(bench::window);
        window.setDaemon(true);
        window.start();
        try {
            if (address != null) {
                bench.connect(address);
            }
            bench.work();
        } catch (Throwable t) {
            if (!bench.measured) {
                t.printStackTrace();
                Runtime.getRuntime().halt(1); // at once: threads of Flink's would keep the process alive
            }
            end.join(); // the other side has ended
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeSerializer<StreamElement> serializer() {
        return (TypeSerializer) new StreamElementSerializer<>(BytePrimitiveArraySerializer.INSTANCE);
    }

    /** Makes the partition and says where it is. */
    private void serve(boolean flushed) throws Exception {
        ResultPartitionID id =
                new ResultPartitionID(
                        new IntermediateResultPartitionID(new IntermediateDataSetID(), 0), ExecutionAttemptID.randomId());
        ResultPartition partition = network.partition(id, channels);
        ((ChannelStateHolder) partition).setChannelStateWriter(ChannelStateWriter.NO_OP);
        partition.setup();
        writer =
                new RecordWriterBuilder<SerializationDelegate<StreamElement>>()
                        .setTimeout(flushed ? 0 : 100)
                        .build(partition);
        OUT.println(
                "ADDR "
                        + InetAddress.getLoopbackAddress().getHostAddress()
                        + ":"
                        + network.port
                        + "/"
                        + HexFormat.of().formatHex(id.getBytes()));
        OUT.flush();
    }

    /** Makes the gate for HOST:PORT/PARTITION. */
    @SuppressWarnings("unchecked")
    private void connect(String address) throws Exception {
        int colon = address.lastIndexOf(':');
        int slash = address.indexOf('/');
        InetSocketAddress server =
                new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1, slash)));
        gate =
                network.gate(
                        new ResultPartitionID(HexFormat.of().parseHex(address.substring(slash + 1))), server, channels);
        gate.setChannelStateWriter(ChannelStateWriter.NO_OP);
        gate.setup();
        gate.finishReadRecoveredState();
        while (!gate.getStateConsumedFuture().isDone()) {
            gate.pollNext();
        }
        gate.requestPartitions();
        deserializers = new RecordDeserializer[channels];
        String[] directories = {System.getProperty("java.io.tmpdir")};
        Arrays.setAll(deserializers, i -> new SpillingAdaptiveSpanningRecordDeserializer<>(directories));
    }

    private void work() throws Exception {
        byte[] record = new byte[size];
        for (int i = 0; i < size; i++) {
            record[i] = i < 8 ? 0 : (byte) i;
        }
        record[0] = FIELD;
        switch (side) {
            case "send":
                while (true) {
                    for (int c = 0; c < channels; c++) {
                        write(record, c);
                    }
                    count(channels);
                }
            case "receive":
                while (true) {
                    for (int i = 0; i < COUNT_EVERY; i++) {
                        read();
                    }
                    count(COUNT_EVERY);
                }
            case "ping":
                for (long last = System.nanoTime(); ; ) {
                    write(record, 0);
                    read();
                    long now = System.nanoTime();
                    long n = trip.get();
                    trips[(int) (n % MOST_TRIPS)] = now - last;
                    trip.lazySet(n + 1);
                    last = now;
                    count(1);
                }
            case "pong":
                while (true) {
                    write(read(), 0);
                    count(1);
                }
            default:
                throw new IllegalArgumentException("no side " + side);
        }
    }

    private void count(int n) {
        if (items.get() == 0) {
            begun.countDown();
        }
        items.lazySet(items.get() + n);
    }

    private void write(byte[] record, int channel) throws Exception {
        out.setInstance(new StreamRecord<>(record));
        if (!writer.isAvailable()) {
            writer.getAvailableFuture().get();
        }
        writer.emit(out, channel);
    }

    /** The next record. */
    private byte[] read() throws Exception {
        while (true) {
            if (current >= 0) {
                DeserializationResult result = deserializers[current].getNextRecord(in);
                if (result.isBufferConsumed()) {
                    current = -1;
                }
                if (result.isFullRecord()) {
                    byte[] value = in.getInstance().<byte[]>asRecord().getValue();
                    if (value.length != size || value[0] != FIELD) {
                        throw new IllegalStateException("a record of " + value.length + " bytes that begins with " + value[0]);
                    }
                    return value;
                }
                continue;
            }
            BufferOrEvent item = gate.getNext().orElseThrow();
            if (item.isBuffer()) {
                current = item.getChannelInfo().getInputChannelIdx();
                deserializers[current].setNextBuffer(item.getBuffer());
            }
        }
    }

    /** What the process has done and used so far. */
    private final class Snapshot {
        final long at = System.nanoTime();
        final long done = items.get();
        final long cpu = ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
        final long compiled = compiled();

        double seconds(Snapshot since) {
            return (at - since.at) / 1e9;
        }

        double rate(Snapshot since) {
            return (done - since.done) / seconds(since);
        }

        double cpu(Snapshot since) {
            return (cpu - since.cpu) / 1e9;
        }

        double perItem(Snapshot since) {
            return cpu(since) / Math.max(1, done - since.done);
        }
    }

    private void window() {
        try {
            begun.await();
            double warmedUp = warmUp();
            OUT.println("WARM");
            OUT.flush();
            told.await();
            long[] collections = collections();
            int first = (int) trip.get();
            Snapshot begin = new Snapshot();
            Thread.sleep((long) (500 * seconds));
            Snapshot middle = new Snapshot();
            Thread.sleep((long) (500 * seconds));
            Snapshot end = new Snapshot();
            long n = end.done - begin.done;
            long[] after = collections();
            OUT.printf(
                    Locale.ROOT,
                    "RESULT {\"role\":\"Flink %s\",\"seconds\":%.6f,\"bytes\":%d,\"items\":%d,\"cpu_s\":%.6f,\"gcs\":%d,\"gc_pause_us\":%d,\"extra\":{"
                            + "\"warm_up_s\":%.3f,\"compiled_s\":%.3f,\"rate_halves\":%.4f,\"cpu_halves\":%.4f%s}}%n",
                    side,
                    end.seconds(begin),
                    n * size,
                    n,
                    end.cpu(begin),
                    after[0] - collections[0],
                    1000 * (after[1] - collections[1]),
                    warmedUp,
                    (end.compiled - begin.compiled) / 1e3,
                    end.rate(middle) / Math.max(1, middle.rate(begin)),
                    end.perItem(middle) / Math.max(1e-12, middle.perItem(begin)),
                    quantiles(first, (int) trip.get()));
            OUT.flush();
            measured = true;
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Waits until the process is warm, and returns how long that was in seconds. */
    private double warmUp() throws InterruptedException {
        long from = System.nanoTime();
        double passed = 0;
        ArrayDeque<Long> past = new ArrayDeque<>();
        for (int step = QUIET_MS / 20; passed < warmUp || passed < mostWarmUp; passed = (System.nanoTime() - from) / 1e9) {
            past.add(compiled());
            if (passed >= warmUp && past.size() > QUIET_MS / step && past.getLast() - past.getFirst() < COMPILED_MS) {
                break;
            }
            if (past.size() > QUIET_MS / step) {
                past.remove();
            }
            Thread.sleep(step);
        }
        return passed;
    }

    /** The milliseconds that the compiler has worked so far. */
    private static long compiled() {
        return ManagementFactory.getCompilationMXBean().getTotalCompilationTime();
    }

    private String quantiles(int first, int end) {
        if (end <= first || end > MOST_TRIPS) {
            return "";
        }
        long[] sorted = Arrays.copyOfRange(trips, first, end);
        Arrays.sort(sorted);
        return String.format(
                Locale.ROOT,
                ",\"samples\":%d,\"p50_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f",
                sorted.length,
                sorted[sorted.length / 2] / 1e3,
                sorted[(int) (sorted.length * 0.99)] / 1e3,
                sorted[(int) (sorted.length * 0.999)] / 1e3);
    }

    /** Collections and their milliseconds so far. */
    private static long[] collections() {
        long[] sum = new long[2];
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            sum[0] += bean.getCollectionCount();
            sum[1] += bean.getCollectionTime();
        }
        return sum;
    }
}
