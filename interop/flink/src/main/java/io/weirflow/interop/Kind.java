package io.weirflow.interop;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.NettyShuffleEnvironmentOptions;
import org.apache.flink.configuration.NettyShuffleEnvironmentOptions.CompressionCodec;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;

/** How a partition is kept: kind in script.go is the same in Go. Blocking ones are the only ones that Flink compresses. */
enum Kind {
    PIPELINED(CompressionCodec.NONE),
    BLOCKING(CompressionCodec.NONE),
    LZ4(CompressionCodec.LZ4),
    ZSTD(CompressionCodec.ZSTD);

    private final CompressionCodec codec;

    Kind(CompressionCodec codec) {
        this.codec = codec;
    }

    boolean isBlocking() {
        return this != PIPELINED;
    }

    ResultPartitionType type() {
        return isBlocking() ? ResultPartitionType.BLOCKING : ResultPartitionType.PIPELINED_BOUNDED;
    }

    void configure(Configuration settings) {
        settings.set(NettyShuffleEnvironmentOptions.SHUFFLE_COMPRESSION_CODEC, codec);
    }
}
