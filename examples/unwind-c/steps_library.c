/* A shared library that a PLT leads to. */
void keep_reference(void);

int library_leaf(int x)
{
    keep_reference();
    return x * 3;
}
