// Writes keys into a database in memory, reads them back in order, and says how many there were.
#include <cstdio>
#include <memory>
#include <string>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

int main() {
    std::unique_ptr<rocksdb::Env> memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
    rocksdb::Options options;
    options.create_if_missing = true;
    options.env = memory.get();
    rocksdb::DB *opened = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(options, "/database", &opened);
    std::unique_ptr<rocksdb::DB> database(opened);
    for (int key = 0; status.ok() && key < 300; key++) {
        char text[4];
        std::snprintf(text, sizeof text, "%03d", key);
        status = database->Put(rocksdb::WriteOptions(), text, std::to_string(key));
    }
    if (status.ok())
        status = database->Flush(rocksdb::FlushOptions());
    if (!status.ok()) {
        std::puts(status.ToString().c_str());
        return 1;
    }
    int count = 0;
    std::string last;
    std::unique_ptr<rocksdb::Iterator> iterator(database->NewIterator(rocksdb::ReadOptions()));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), count++)
        last = iterator->value().ToString();
    std::printf("%d keys, the last is %s\n", count, last.c_str());
}
