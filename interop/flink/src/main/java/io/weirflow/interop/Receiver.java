package io.weirflow.interop;

import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.checkpoint.CheckpointException;
import org.apache.flink.runtime.checkpoint.CheckpointMetaData;
import org.apache.flink.runtime.checkpoint.CheckpointMetricsBuilder;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.channel.ChannelStateWriter;
import org.apache.flink.runtime.checkpoint.channel.InputChannelInfo;
import org.apache.flink.runtime.io.PullingAsyncDataInput.EndOfDataStatus;
import org.apache.flink.runtime.io.network.api.EndOfPartitionEvent;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer.DeserializationResult;
import org.apache.flink.runtime.io.network.api.serialization.SpillingAdaptiveSpanningRecordDeserializer;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.consumer.BufferOrEvent;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.jobgraph.tasks.CheckpointableTask;
import org.apache.flink.runtime.plugable.DeserializationDelegate;
import org.apache.flink.runtime.plugable.NonReusingDeserializationDelegate;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.apache.flink.streaming.runtime.io.checkpointing.CheckpointedInputGate;
import org.apache.flink.streaming.runtime.io.checkpointing.SingleCheckpointBarrierHandler;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.SubtaskCheckpointCoordinator;
import org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve;
import org.apache.flink.util.clock.SystemClock;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongConsumer;

/** Flink receives: what a task does with its input, from the gate to the watermark valve, with the handler for unaligned checkpoints. */
final class Receiver {
    private final Script script;
    private final Report report;
    private final Keys keys;
    private final LongConsumer complete;
    private final Mailbox mailbox = new Mailbox();
    private final InFlight inFlight = new InFlight();
    private final int[] next;
    private final List<RecordDeserializer<DeserializationDelegate<StreamElement>>> deserializers = new ArrayList<>();
    private final DeserializationDelegate<StreamElement> delegate;
    private final List<Report.Checkpoint> pending = new ArrayList<>();
    private final StatusWatermarkValve valve;
    private final DataOutput<?> valveOutput;
    private SingleInputGate gate;
    private CheckpointedInputGate input;
    private long lastWatermark = -1;

    /** complete is told of each checkpoint that is complete. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    Receiver(Script script, Keys keys, LongConsumer complete) {
        this.script = script;
        this.keys = keys;
        this.complete = complete;
        report = new Report(script.channels);
        next = new int[script.channels];
        valve = new StatusWatermarkValve(script.channels);
        valveOutput = output(this::watermark);
        delegate =
                new NonReusingDeserializationDelegate(new StreamElementSerializer<>(BytePrimitiveArraySerializer.INSTANCE));
        String[] directories = {System.getProperty("java.io.tmpdir")};
        for (int c = 0; c < script.channels; c++) {
            deserializers.add(new SpillingAdaptiveSpanningRecordDeserializer<>(directories));
        }
    }

    Report run(InetSocketAddress server, ResultPartitionID id) throws Exception {
        try (Network network = new Network(keys, script.kind)) {
            gate = network.gate(id, server, script.channels);
            try {
                open();
                read();
            } finally {
                gate.close();
            }
            report.missing = network.missing();
        }
        return report;
    }

    /** The steps of a task that starts without state. */
    private void open() throws Exception {
        gate.setChannelStateWriter(inFlight);
        gate.setup();
        gate.finishReadRecoveredState();
        while (!gate.getStateConsumedFuture().isDone()) {
            gate.pollNext();
        }
        gate.requestPartitions();
        SingleCheckpointBarrierHandler handler =
                SingleCheckpointBarrierHandler.alternating(
                        "interop", new Task(), coordinator(), SystemClock.getInstance(), script.channels, mailbox, true, gate);
        input = new CheckpointedInputGate(gate, handler, mailbox);
    }

    private void read() throws Exception {
        while (!input.isFinished()) {
            mailbox.run();
            completePending();
            Optional<BufferOrEvent> item = input.pollNext();
            if (item.isEmpty()) {
                if (!input.isFinished()) {
                    await(input.getAvailableFuture());
                }
                continue;
            }
            int c = item.get().getChannelInfo().getInputChannelIdx();
            if (item.get().isBuffer()) {
                elements(c, item.get());
            } else if (item.get().getEvent() instanceof EndOfPartitionEvent) {
                deserializers.get(c).clear();
                check(next[c] == script.elements[c].length, "channel " + c + " ended after " + next[c] + " elements");
            }
            if (input.hasReceivedEndOfData() == EndOfDataStatus.DRAINED) {
                report.endOfData = true;
            }
        }
        mailbox.run();
        completePending();
        check(pending.isEmpty(), "checkpoints are not complete at the end");
        input.close();
    }

    private void await(CompletableFuture<?> available) throws Exception {
        while (!mailbox.hasMail()) {
            try {
                available.get(1, TimeUnit.MILLISECONDS);
                return;
            } catch (TimeoutException e) {
                // look at the mailbox again
            }
        }
    }

    private void elements(int c, BufferOrEvent item) throws Exception {
        RecordDeserializer<DeserializationDelegate<StreamElement>> deserializer = deserializers.get(c);
        deserializer.setNextBuffer(item.getBuffer());
        while (true) {
            DeserializationResult result = deserializer.getNextRecord(delegate);
            if (result.isFullRecord()) {
                element(c, delegate.getInstance());
            }
            if (result.isBufferConsumed()) {
                return;
            }
            mailbox.run();
        }
    }

    private void element(int c, StreamElement element) throws Exception {
        int e = next[c]++;
        check(e < script.elements[c].length, "channel " + c + " has too many elements");
        if (element.isWatermark()) {
            Watermark mark = element.asWatermark();
            check(mark.getTimestamp() == -1L - script.elements[c][e], "channel " + c + ", element " + e + " is " + mark);
            valve.inputWatermark(mark, c, valveOutput);
            return;
        }
        check(element.isRecord() && script.isRecord(c, e), "channel " + c + ", element " + e + " is of the wrong kind");
        StreamRecord<byte[]> record = element.asRecord();
        check(Arrays.equals(record.getValue(), script.content(c, e)), "channel " + c + ", record " + e + " is not what was sent");
        boolean stamped = script.hasTimestamp(e);
        check(
                record.hasTimestamp() == stamped && (!stamped || record.getTimestamp() == e),
                "channel " + c + ", record " + e + " has another timestamp: " + record);
        report.record(c, record.getValue());
        if (script.pauses[c][e] > 0) {
            Thread.sleep(script.pauses[c][e]);
        }
    }

    /** The valve lets a watermark pass when it has come through all channels. */
    private void watermark(Watermark mark) {
        check(mark.getTimestamp() > lastWatermark, "watermark " + mark.getTimestamp() + " after " + lastWatermark);
        lastWatermark = mark.getTimestamp();
        for (int c = 0; c < script.channels; c++) {
            int e = next[c] - 1;
            while (e >= 0 && script.isRecord(c, e)) {
                e--;
            }
            check(e >= 0 && -1L - script.elements[c][e] >= lastWatermark, "watermark " + lastWatermark + " came too early");
        }
        report.watermarks++;
    }

    private void completePending() {
        for (Iterator<Report.Checkpoint> i = pending.iterator(); i.hasNext(); ) {
            Report.Checkpoint cp = i.next();
            if (!input.getAllBarriersReceivedFuture(cp.id).isDone()) {
                continue;
            }
            i.remove();
            for (int c = 0; c < script.channels; c++) {
                byte[] state = inFlight.take(cp.id, c);
                cp.state[c] = state.length;
                check(script.matches(c, cp.low[c], state), "checkpoint " + cp.id + ": what was in flight of channel " + c + " is not what was sent");
            }
            report.checkpoints.add(cp);
            complete.accept(cp.id);
        }
    }

    private static void check(boolean ok, String text) {
        if (!ok) {
            throw new IllegalStateException(text);
        }
    }

    /** The task as the barrier handler sees it. */
    private final class Task implements CheckpointableTask {
        @Override
        public void triggerCheckpointOnBarrier(
                CheckpointMetaData data, CheckpointOptions options, CheckpointMetricsBuilder metrics) {
            Report.Checkpoint cp = new Report.Checkpoint();
            cp.id = data.getCheckpointId();
            cp.timestamp = data.getTimestamp();
            cp.unaligned = options.isUnalignedCheckpoint();
            cp.state = new long[script.channels];
            cp.low = new long[script.channels];
            for (int c = 0; c < script.channels; c++) {
                cp.low[c] = script.offsets[c][next[c]];
            }
            cp.high = cp.low;
            pending.add(cp);
        }

        @Override
        public void abortCheckpointOnBarrier(long checkpoint, CheckpointException cause) throws IOException {
            throw new IOException("checkpoint " + checkpoint + " was aborted", cause);
        }

        @Override
        public CompletableFuture<Boolean> triggerCheckpointAsync(CheckpointMetaData data, CheckpointOptions options) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> notifyCheckpointCompleteAsync(long checkpoint) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> notifyCheckpointAbortAsync(long checkpoint, long latest) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<Void> notifyCheckpointSubsumedAsync(long checkpoint) {
            throw new UnsupportedOperationException();
        }
    }

    /** Of the coordinator, the handler uses the start of a checkpoint: what deserializers hold is part of the state then. */
    private SubtaskCheckpointCoordinator coordinator() {
        return (SubtaskCheckpointCoordinator)
                Proxy.newProxyInstance(
                        getClass().getClassLoader(),
                        new Class<?>[] {SubtaskCheckpointCoordinator.class},
                        (proxy, method, args) -> {
                            if (!method.getName().equals("initInputsCheckpoint")) {
                                throw new UnsupportedOperationException(method.toString());
                            }
                            if (((CheckpointOptions) args[1]).isUnalignedCheckpoint()) {
                                for (int c = 0; c < script.channels; c++) {
                                    inFlight.addInputData(
                                            (Long) args[0],
                                            new InputChannelInfo(0, c),
                                            ChannelStateWriter.SEQUENCE_NUMBER_UNKNOWN,
                                            deserializers.get(c).getUnconsumedBuffer());
                                }
                            }
                            return null;
                        });
    }

    /** A valve's output: a proxy, since the releases differ in what else it can take. */
    private static DataOutput<?> output(java.util.function.Consumer<Watermark> watermark) {
        return (DataOutput<?>)
                Proxy.newProxyInstance(
                        Receiver.class.getClassLoader(),
                        new Class<?>[] {DataOutput.class},
                        (proxy, method, args) -> {
                            if (!(args[0] instanceof Watermark)) {
                                throw new UnsupportedOperationException(method.toString());
                            }
                            watermark.accept((Watermark) args[0]);
                            return null;
                        });
    }
}
