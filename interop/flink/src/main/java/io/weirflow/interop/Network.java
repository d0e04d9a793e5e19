package io.weirflow.interop;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.clusterframework.types.ResourceID;
import org.apache.flink.runtime.deployment.InputGateDeploymentDescriptor;
import org.apache.flink.runtime.deployment.ResultPartitionDeploymentDescriptor;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.ShuffleDescriptorAndIndex;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.NettyShuffleEnvironment;
import org.apache.flink.runtime.io.network.NettyShuffleServiceFactory;
import org.apache.flink.runtime.io.network.TaskEventDispatcher;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.io.network.partition.ResultSubpartitionIndexSet;
import org.apache.flink.runtime.io.network.partition.consumer.InputChannel;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.shuffle.NettyShuffleDescriptor;
import org.apache.flink.runtime.shuffle.PartitionDescriptor;
import org.apache.flink.runtime.shuffle.ShuffleEnvironmentContext;
import org.apache.flink.runtime.shuffle.ShuffleIOOwnerContext;
import org.apache.flink.util.concurrent.ScheduledExecutorServiceAdapter;

import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;

/** The network stack of a TaskManager with the settings that Flink comes with. */
final class Network implements AutoCloseable {
    private static final MemorySize MEMORY = MemorySize.parse("64m");

    final int port;
    private final ResultPartitionType type;
    private final NettyShuffleEnvironment shuffle;
    private final ResourceID here = ResourceID.generate();
    private final ScheduledExecutorService executor = Executors.newScheduledThreadPool(1);

    /** With TLS if there are keys. */
    Network(Keys keys, Kind kind) throws Exception {
        type = kind.type();
        Configuration settings = new Configuration();
        kind.configure(settings);
        if (keys != null) {
            keys.configure(settings);
        }
        shuffle =
                (NettyShuffleEnvironment)
                        new NettyShuffleServiceFactory()
                                .createShuffleEnvironment(
                                        new ShuffleEnvironmentContext(
                                                settings,
                                                here,
                                                MEMORY,
                                                false,
                                                InetAddress.getLoopbackAddress(),
                                                1,
                                                new String[] {System.getProperty("java.io.tmpdir")},
                                                new TaskEventDispatcher(),
                                                new UnregisteredMetricsGroup(),
                                                executor,
                                                new ScheduledExecutorServiceAdapter(executor)));
        port = shuffle.start();
    }

    ResultPartition partition(ResultPartitionID id, int subpartitions) throws Exception {
        PartitionDescriptor partition =
                new PartitionDescriptor(
                        id.getPartitionId().getIntermediateDataSetID(), 1, id.getPartitionId(), type, subpartitions, 0, false, true, false);
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        return shuffle.createResultPartitionWriters(
                        owner(id.getProducerId()),
                        List.of(new ResultPartitionDeploymentDescriptor(partition, descriptor(here, address, id), 128)))
                .get(0);
    }

    /** A gate with a channel for each subpartition of one partition, which Flink itself would spread over several tasks. */
    SingleInputGate gate(ResultPartitionID id, InetSocketAddress server, int channels) throws Exception {
        NettyShuffleDescriptor producer = descriptor(ResourceID.generate(), server, id);
        ShuffleDescriptorAndIndex[] producers = new ShuffleDescriptorAndIndex[channels];
        Arrays.setAll(producers, i -> new ShuffleDescriptorAndIndex(producer, i));
        SingleInputGate gate =
                shuffle.createInputGates(
                                owner(ExecutionAttemptID.randomId()),
                                (dataSet, partition, handler) -> {
                                    throw new IllegalStateException("no such partition: " + partition);
                                },
                                List.of(
                                        new InputGateDeploymentDescriptor(
                                                id.getPartitionId().getIntermediateDataSetID(), type, 0, producers)))
                        .get(0);
        Field index = InputChannel.class.getDeclaredField("consumedSubpartitionIndexSet");
        index.setAccessible(true);
        for (InputChannel channel : gate.inputChannels()) {
            index.set(channel, new ResultSubpartitionIndexSet(channel.getChannelIndex()));
        }
        return gate;
    }

    /** Segments that are in use. */
    int used() {
        return shuffle.getNetworkBufferPool().getNumberOfUsedMemorySegments();
    }

    /** Ends a partition that outlives its consumers. */
    void release(ResultPartitionID id) {
        shuffle.releasePartitionsLocally(List.of(id));
    }

    /** Waits until no segment is in use, or in vain, and returns how many are. */
    int missing() throws InterruptedException {
        for (int i = 0; used() > 0 && i < 1000; i++) {
            Thread.sleep(5);
        }
        return used();
    }

    private ShuffleIOOwnerContext owner(ExecutionAttemptID attempt) {
        return shuffle.createShuffleIOOwnerContext("interop", attempt, new UnregisteredMetricsGroup());
    }

    private static NettyShuffleDescriptor descriptor(ResourceID producer, InetSocketAddress address, ResultPartitionID id) {
        return new NettyShuffleDescriptor(
                producer, new NettyShuffleDescriptor.NetworkPartitionConnectionInfo(address, 0), id);
    }

    @Override
    public void close() throws Exception {
        shuffle.close();
        executor.shutdownNow();
    }
}
