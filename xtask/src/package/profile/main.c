unsigned long count_words(void);

int main(void) { return count_words() != 5; }
