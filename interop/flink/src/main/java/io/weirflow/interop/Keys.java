package io.weirflow.interop;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.SecurityOptions;

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;

/** The stores that Flink's internal TLS wants: one key and certificate, the same at both ends, which trusts itself. */
final class Keys {
    private static final String PASSWORD = "interop";

    private final Path keyStore;
    private final Path trustStore;

    private Keys(Path folder) throws Exception {
        PrivateKey key =
                KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(Files.readAllBytes(folder.resolve("key.der"))));
        Certificate certificate;
        try (var in = Files.newInputStream(folder.resolve("certificate.der"))) {
            certificate = CertificateFactory.getInstance("X.509").generateCertificate(in);
        }
        KeyStore keys = empty();
        keys.setKeyEntry("interop", key, PASSWORD.toCharArray(), new Certificate[] {certificate});
        keyStore = store(keys, folder.resolve("keys.p12"));
        KeyStore trusted = empty();
        trusted.setCertificateEntry("interop", certificate);
        trustStore = store(trusted, folder.resolve("trusted.p12"));
    }

    /** The keys in a folder; null for "-". */
    static Keys of(String folder) throws Exception {
        return folder.equals("-") ? null : new Keys(Path.of(folder));
    }

    void configure(Configuration settings) {
        settings.set(SecurityOptions.SSL_INTERNAL_ENABLED, true);
        settings.set(SecurityOptions.SSL_INTERNAL_KEYSTORE, keyStore.toString());
        settings.set(SecurityOptions.SSL_INTERNAL_KEYSTORE_PASSWORD, PASSWORD);
        settings.set(SecurityOptions.SSL_INTERNAL_KEY_PASSWORD, PASSWORD);
        settings.set(SecurityOptions.SSL_INTERNAL_TRUSTSTORE, trustStore.toString());
        settings.set(SecurityOptions.SSL_INTERNAL_TRUSTSTORE_PASSWORD, PASSWORD);
    }

    private static KeyStore empty() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Path store(KeyStore store, Path file) throws Exception {
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, PASSWORD.toCharArray());
        }
        return file;
    }
}
