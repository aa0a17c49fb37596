template <class T> T add(T a, T b) { return a + b; }
struct Shape {
  virtual int area() { return add(1, 2); }
  virtual ~Shape() {}
};
Shape unit;
int measure(Shape *shape) {
  try {
    return shape->area();
  } catch (int code) {
    return code;
  }
}
