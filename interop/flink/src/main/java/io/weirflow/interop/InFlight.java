package io.weirflow.interop;

import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.channel.ChannelStateWriter;
import org.apache.flink.runtime.checkpoint.channel.InputChannelInfo;
import org.apache.flink.runtime.checkpoint.channel.ResultSubpartitionInfo;
import org.apache.flink.runtime.io.network.buffer.Buffer;
import org.apache.flink.util.CloseableIterator;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;

/** The channel state of unaligned checkpoints, kept in memory until it was compared with what it should be. */
final class InFlight implements ChannelStateWriter {
    private final TreeMap<Long, TreeMap<Integer, ByteArrayOutputStream>> bytes = new TreeMap<>();
    private Throwable failure;

    /** Takes what is there of a channel (or subpartition) for a checkpoint. */
    synchronized byte[] take(long checkpoint, int channel) {
        if (failure != null) {
            throw new IllegalStateException("channel state of checkpoint " + checkpoint, failure);
        }
        TreeMap<Integer, ByteArrayOutputStream> channels = bytes.get(checkpoint);
        ByteArrayOutputStream out = channels == null ? null : channels.remove(channel);
        return out == null ? new byte[0] : out.toByteArray();
    }

    private synchronized void add(long checkpoint, int channel, Buffer buffer) {
        ByteBuffer view = buffer.getNioBufferReadable();
        byte[] copy = new byte[view.remaining()];
        view.get(copy);
        buffer.recycleBuffer();
        bytes.computeIfAbsent(checkpoint, id -> new TreeMap<>())
                .computeIfAbsent(channel, c -> new ByteArrayOutputStream())
                .writeBytes(copy);
    }

    @Override
    public void addInputData(long checkpoint, InputChannelInfo info, int sequence, CloseableIterator<Buffer> data) {
        try (data) {
            while (data.hasNext()) {
                add(checkpoint, info.getInputChannelIdx(), data.next());
            }
        } catch (Exception e) {
            fail(e);
        }
    }

    @Override
    public void addOutputData(long checkpoint, ResultSubpartitionInfo info, int sequence, Buffer... data) {
        for (Buffer buffer : data) {
            add(checkpoint, info.getSubPartitionIdx(), buffer);
        }
    }

    @Override
    public void addOutputDataFuture(
            long checkpoint, ResultSubpartitionInfo info, int sequence, CompletableFuture<List<Buffer>> data) {
        data.whenComplete(
                (buffers, broken) -> {
                    if (broken != null) {
                        fail(broken);
                    } else {
                        buffers.forEach(buffer -> add(checkpoint, info.getSubPartitionIdx(), buffer));
                    }
                });
    }

    private synchronized void fail(Throwable cause) {
        if (failure == null) {
            failure = cause;
        }
    }

    @Override
    public void start(long checkpoint, CheckpointOptions options) {}

    @Override
    public void finishInput(long checkpoint) {}

    @Override
    public void finishOutput(long checkpoint) {}

    @Override
    public void abort(long checkpoint, Throwable cause, boolean cleanup) {
        fail(cause);
    }

    @Override
    public ChannelStateWriteResult getAndRemoveWriteResult(long checkpoint) {
        return ChannelStateWriteResult.EMPTY;
    }

    @Override
    public void close() {}
}
