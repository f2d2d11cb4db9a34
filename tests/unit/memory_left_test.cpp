// SPDX-License-Identifier: MIT
// How much memory is left, from the texts of the kernel's files, and whether it is enough for all.
#include "topology/memory_left.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace qpmesh::topology {
namespace {

using Files = std::map<std::string, std::string>;

MemoryLeft left_by(const Files& files) {
  return memory_left([&files](const std::string& path) {
    const auto file = files.find(path);
    return file == files.end() ? std::string{} : file->second;
  });
}

const std::string v1 = "/sys/fs/cgroup/memory";
const std::string v2 = "/sys/fs/cgroup";

TEST(memory_left, is_not_limited_by_what_cannot_be_read) {
  for (const Files& files :
       {Files{}, Files{{"/proc/meminfo", "garbage"}, {"/proc/self/cgroup", "0::"}},
        Files{{"/proc/self/cgroup", "0::/a"}, {v2 + "/a/memory.max", "max\n"}}}) {
    const MemoryLeft left = left_by(files);
    EXPECT_EQ(left.machine_bytes, memory_unlimited);
    EXPECT_EQ(left.group_bytes, memory_unlimited);
  }
}

TEST(memory_left, of_the_machine_is_available_memory_and_free_swap) {
  const std::string meminfo =
      "MemTotal:       24684084 kB\nMemFree:        22170464 kB\nMemAvailable:   1000 kB\n"
      "SwapFree:             24 kB\nCommitLimit:    600 kB\nCommitted_AS:   100 kB\n";
  EXPECT_EQ(left_by({{"/proc/meminfo", meminfo}}).machine_bytes, 1024U * 1024);
  EXPECT_EQ(left_by({{"/proc/meminfo", meminfo}, {"/proc/sys/vm/overcommit_memory", "0\n"}})
                .machine_bytes,
            1024U * 1024);
  EXPECT_EQ(left_by({{"/proc/meminfo", meminfo}, {"/proc/sys/vm/overcommit_memory", "2\n"}})
                .machine_bytes,
            500U * 1024);
}

TEST(memory_left, of_control_groups_is_that_of_the_tightest_on_the_way_up) {
  Files files{{"/proc/self/cgroup", "0::/job/step\n"},
              {v2 + "/job/step/memory.max", "5000\n"},
              {v2 + "/job/step/memory.current", "1000\n"},
              {v2 + "/job/memory.max", "9000\n"},
              {v2 + "/job/memory.current", "8000\n"}};
  const MemoryLeft by_the_job = left_by(files);
  EXPECT_EQ(by_the_job.group_bytes, 1000U);
  files[v2 + "/job/memory.current"] = "10\n";
  const MemoryLeft by_the_step = left_by(files);
  EXPECT_EQ(by_the_step.group_bytes, 4000U);
  EXPECT_NE(by_the_step.group, by_the_job.group);
  files[v2 + "/memory.max"] = "7";  // a container's
  EXPECT_EQ(left_by(files).group_bytes, 7U);
}

TEST(memory_left, counts_the_page_cache_as_free_and_never_less_than_nothing) {
  Files files{{"/proc/self/cgroup", "0::/\n"},
              {v2 + "/memory.max", "5000\n"},
              {v2 + "/memory.current", "4900\n"},
              {v2 + "/memory.stat", "anon 500\nfile 4400\ninactive_file 1000\nactive_file 3000\n"}};
  EXPECT_EQ(left_by(files).group_bytes, 4100U);
  files[v2 + "/memory.stat"] = "";
  files[v2 + "/memory.current"] = "6000\n";
  EXPECT_EQ(left_by(files).group_bytes, 0U);
}

TEST(memory_left, knows_version_1_too) {
  EXPECT_EQ(left_by({{"/proc/self/cgroup", "9:name=systemd:/\n4:memory:/box\n0::/\n"},
                     {v1 + "/box/memory.limit_in_bytes", "5000\n"},
                     {v1 + "/box/memory.usage_in_bytes", "4900\n"},
                     {v1 + "/box/memory.stat",
                      "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 20\n"},
                     {v1 + "/memory.limit_in_bytes", "9223372036854771712\n"},
                     {v1 + "/memory.usage_in_bytes", "3118813184\n"}})
                .group_bytes,
            220U);
}

TEST(memory_left, is_something_here) {
  const MemoryLeft left = memory_left();
  EXPECT_GT(left.machine_bytes, 0U);
  EXPECT_LT(left.machine_bytes, memory_unlimited);
}

MemoryClaim claim(int node, std::uint64_t bytes, MemoryLeft left) {
  return {.node = node, .bytes = bytes, .left = left};
}

TEST(a_shortage, is_found_where_the_ranks_of_one_machine_want_more_than_it_has) {
  const MemoryLeft left{.machine_bytes = 100};
  EXPECT_FALSE(find_shortage({}));
  EXPECT_FALSE(
      find_shortage(std::vector{claim(0, 50, left), claim(0, 50, left), claim(1, 100, left)}));
  const auto shortage =
      find_shortage(std::vector{claim(0, 100, left), claim(1, 51, left), claim(1, 50, left)});
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->of, MemoryShortage::Of::machine);
  EXPECT_EQ(shortage->first, 1U);
  EXPECT_EQ(shortage->claims, 2);
  EXPECT_EQ(shortage->need_bytes, 101U);
  EXPECT_EQ(shortage->left_bytes, 100U);
}

TEST(a_shortage, of_a_control_group_counts_those_that_share_it) {
  const MemoryLeft own{.group_bytes = 60, .group = 1};
  const MemoryLeft other{.group_bytes = 60, .group = 2};
  const MemoryLeft tight{.group_bytes = 49, .group = 3};
  EXPECT_FALSE(
      find_shortage(std::vector{claim(0, 50, own), claim(0, 50, other), claim(1, 50, own)}));
  EXPECT_TRUE(find_shortage(std::vector{claim(0, 50, own), claim(0, 50, own)}));
  const auto shortage =
      find_shortage(std::vector{claim(0, 50, own), claim(0, 50, tight), claim(0, 0, {})});
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->of, MemoryShortage::Of::control_group);
  EXPECT_EQ(shortage->first, 1U);
  EXPECT_EQ(shortage->claims, 1);
}

TEST(a_shortage, is_found_though_the_sum_would_wrap) {
  const MemoryLeft left{.machine_bytes = 100};
  EXPECT_TRUE(find_shortage(std::vector{claim(0, memory_unlimited, left), claim(0, 1, left)}));
}

}  // namespace
}  // namespace qpmesh::topology
