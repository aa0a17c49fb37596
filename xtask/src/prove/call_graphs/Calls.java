// Methods whose callers are all known, compiled and interpreted, with callbacks of the run time and much made garbage.
import java.util.Arrays;
import java.util.HashMap;

class Calls {
    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static int deep(int n) {
        return n == 0 ? hashes() : deep(n - 1) + 1;
    }

    static int sorts() {
        Integer[] all = new Integer[2000];
        for (int i = 0; i < all.length; i++)
            all[i] = i * 7919 % 1000;
        Arrays.sort(all, (a, b) -> b - a);
        return all[0];
    }

    static int hashes() {
        HashMap<String, Integer> map = new HashMap<>();
        for (int i = 0; i < 200; i++)
            map.put("key " + i, i);
        int sum = 0;
        for (String key : map.keySet())
            sum += map.get(key);
        return sum;
    }

    static int copies() {
        int[] from = new int[50000], to = new int[50000];
        for (int i = 0; i < 10; i++)
            System.arraycopy(from, 0, to, i, from.length - 10);
        return to[0];
    }

    public static void main(String[] words) {
        long end = System.nanoTime() + 3_000_000_000L, sum = 0;
        while (System.nanoTime() < end)
            sum += fib(18) + deep(100) + sorts() + copies();
        System.exit(sum == 1 ? 1 : 0);
    }
}
