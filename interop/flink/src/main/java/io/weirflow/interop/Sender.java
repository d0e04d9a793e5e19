package io.weirflow.interop;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.api.CheckpointBarrier;
import org.apache.flink.runtime.io.network.api.StopMode;
import org.apache.flink.runtime.io.network.api.writer.RecordWriter;
import org.apache.flink.runtime.io.network.api.writer.RecordWriterBuilder;
import org.apache.flink.runtime.io.network.partition.ChannelStateHolder;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.jobgraph.IntermediateResultPartitionID;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.runtime.state.CheckpointStorageLocationReference;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiConsumer;
import java.util.function.LongPredicate;

/** Flink sends: what a source task does with its output, checkpoints included. */
final class Sender {
    private final Script script;
    private final Mailbox mailbox = new Mailbox();
    private final InFlight inFlight = new InFlight();
    private final Report report;
    private final Keys keys;
    private final LongPredicate acknowledged;
    private ResultPartition partition;
    private RecordWriter<SerializationDelegate<StreamElement>> writer;

    /** acknowledged tells whether the coordinator has a checkpoint's acknowledgement. */
    Sender(Script script, Keys keys, LongPredicate acknowledged) {
        this.keys = keys;
        this.script = script;
        this.report = new Report(script.channels);
        this.acknowledged = acknowledged;
    }

    Report run(BiConsumer<Integer, ResultPartitionID> ready) throws Exception {
        ResultPartitionID id =
                new ResultPartitionID(
                        new IntermediateResultPartitionID(new IntermediateDataSetID(), 0), ExecutionAttemptID.randomId());
        try (Network network = new Network(keys, script.kind)) {
            partition = network.partition(id, script.channels);
            boolean blocking = script.kind.isBlocking();
            if (!blocking) {
                ((ChannelStateHolder) partition).setChannelStateWriter(inFlight);
            }
            partition.setup();
            if (!blocking) {
                ready.accept(network.port, id);
            }
            writer =
                    new RecordWriterBuilder<SerializationDelegate<StreamElement>>()
                            .setTimeout(blocking ? -1 : 100)
                            .build(partition);
            send();
            writer.flushAll();
            partition.notifyEndOfData(StopMode.DRAIN);
            if (!blocking) {
                serveUntil(partition.getAllDataProcessedFuture().thenApply(nothing -> null));
            }
            report.endOfData = true;
            partition.finish();
            writer.close();
            if (blocking) {
                ready.accept(network.port, id);
                awaitAcknowledged(1); // the consumers are done: it does not end with them
                network.release(id);
            }
            partition.close();
            while (!partition.isReleased()) {
                Thread.sleep(1);
            }
            collectState();
            report.missing = network.missing();
        }
        return report;
    }

    private void send() throws Exception {
        SerializationDelegate<StreamElement> delegate =
                new SerializationDelegate<>(elementSerializer());
        int[] next = new int[script.channels];
        for (int r = 0; r < script.rounds; r++) {
            for (int c = 0; c < script.channels; c++) {
                record(delegate, c, next[c]++);
            }
            int b = script.barrierAfter[r];
            if (b >= 0) {
                awaitAcknowledged(b);
                int c = script.burstChannel(b);
                for (int i = script.burstLength(b); i > 0; i--) {
                    record(delegate, c, next[c]++);
                }
            }
            if (script.watermarkAfter[r]) {
                delegate.setInstance(new Watermark(r));
                for (int c = 0; c < script.channels; c++) {
                    serveUntilAvailable();
                    writer.emit(delegate, c);
                    next[c]++;
                }
                report.watermarks++;
            }
            if (b >= 0) {
                barrier(b);
            }
        }
        if (!script.kind.isBlocking()) {
            awaitAcknowledged(Script.BARRIERS);
        }
    }

    /** One checkpoint at a time, as with Flink's coordinator. */
    private void awaitAcknowledged(long id) throws Exception {
        while (!acknowledged.test(id)) {
            mailbox.run();
            Thread.sleep(1);
        }
    }

    /** What is written to the buffers: the cast is that of Flink's own code, an element is of any kind. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeSerializer<StreamElement> elementSerializer() {
        return (TypeSerializer)
                new StreamElementSerializer<>(BytePrimitiveArraySerializer.INSTANCE);
    }

    private void record(SerializationDelegate<StreamElement> delegate, int c, int e) throws Exception {
        byte[] value = script.content(c, e);
        delegate.setInstance(script.hasTimestamp(e) ? new StreamRecord<>(value, e) : new StreamRecord<>(value));
        serveUntilAvailable();
        writer.emit(delegate, c);
        report.record(c, value);
    }

    private void barrier(int b) throws Exception {
        long id = b + 1;
        CheckpointBarrier barrier = new CheckpointBarrier(id, System.currentTimeMillis(), options(b % 4));
        writer.broadcastEvent(barrier, barrier.getCheckpointOptions().isUnalignedCheckpoint());
        if (barrier.getCheckpointOptions().isTimeoutable()) {
            long limit = barrier.getCheckpointOptions().getAlignedCheckpointTimeout();
            mailbox.registerTask(
                    () -> {
                        writer.alignedBarrierTimeout(id);
                        return null;
                    },
                    Duration.ofMillis(limit));
        }
        Report.Checkpoint cp = new Report.Checkpoint();
        cp.id = id;
        cp.timestamp = barrier.getTimestamp();
        cp.unaligned = b % 4 == Script.UNALIGNED;
        cp.low = new long[script.channels];
        for (int c = 0; c < script.channels; c++) {
            cp.low[c] = script.offsets[c][script.before[b][c]];
        }
        cp.high = cp.low;
        report.checkpoints.add(cp);
    }

    private static CheckpointOptions options(int kind) {
        CheckpointStorageLocationReference location = CheckpointStorageLocationReference.getDefault();
        switch (kind) {
            case Script.ALIGNED:
                return CheckpointOptions.alignedNoTimeout(CheckpointType.CHECKPOINT, location);
            case Script.TIMED_LONG:
                return CheckpointOptions.alignedWithTimeout(CheckpointType.CHECKPOINT, location, Script.LONG_TIMEOUT);
            case Script.TIMED_SHORT:
                return CheckpointOptions.alignedWithTimeout(CheckpointType.CHECKPOINT, location, Script.SHORT_TIMEOUT);
            default:
                return CheckpointOptions.unaligned(CheckpointType.CHECKPOINT, location);
        }
    }

    /** A task does not write before its output has room; meanwhile it serves its timers. */
    private void serveUntilAvailable() throws Exception {
        mailbox.run();
        while (!writer.isAvailable()) {
            serveUntil(writer.getAvailableFuture());
        }
    }

    private void serveUntil(CompletableFuture<?> future) throws Exception {
        for (boolean done = false; !done; ) {
            mailbox.run();
            try {
                future.get(1, TimeUnit.MILLISECONDS);
                done = true;
            } catch (TimeoutException e) {
                // look at the timers again
            }
        }
    }

    /** What the output had in flight must be the end of what was written before the barrier. */
    private void collectState() {
        for (Report.Checkpoint cp : report.checkpoints) {
            cp.state = new long[script.channels];
            for (int c = 0; c < script.channels; c++) {
                byte[] state = inFlight.take(cp.id, c);
                cp.state[c] = state.length;
                cp.unaligned |= state.length > 0;
                if (!script.matches(c, cp.low[c] - state.length, state)) {
                    throw new IllegalStateException(
                            "checkpoint " + cp.id + ": the " + state.length + " bytes in flight of subpartition " + c + " are not what was written");
                }
            }
        }
    }
}
